// The state of the film page: moment, head, token and question, and playing.
import type { components } from "../api";
import { PageState } from "../source/page-state.svelte";
import { askContainer, askJson } from "../source/server";
import { addressOf, fieldsAt, whole } from "../address-fields";
import type { Table } from "../wire";
import { frameAt, axisPosition } from "./timeline";

export type FilmCard = components["schemas"]["FilmResponse"];
export type Ground = "repeats" | "text";
export const PAIR = "pair";
const NAMED = 0.5;
const FULL = 65_535;
const TICK = 110; // milliseconds a moment while it plays

export class Player extends PageState {
  names = $state.raw<string[]>([]);
  film = $state.raw<FilmCard | null>(null);
  moment = $state(0);
  head = $state(0);
  token = $state(0);
  sentence = $state(0);
  show = $state(PAIR);
  ground = $state<Ground>("repeats");
  playing = $state(false);

  private arrays: Record<string, Table> = {};
  private timer = 0;

  readonly moments = $derived(this.film?.moments ?? []);
  readonly now = $derived(this.moments[this.moment]);
  readonly last = $derived(this.moments[this.moments.length - 1]);
  /** what the axis counts: a run that did not say how many tokens it saw is told by its steps */
  readonly counted = $derived(this.last?.tokens ? ("tokens" as const) : ("step" as const));
  readonly places = $derived(this.moments.map((each) => axisPosition(each[this.counted], this.last[this.counted])));
  readonly framed = $derived(!!this.film?.frames.length && this.film.sentences.length > 0);
  readonly frame = $derived(this.film ? frameAt(this.film.frames, this.now.step) : 0);
  readonly tokens = $derived(this.film?.sentences[this.sentence]?.tokens ?? []);
  readonly families = $derived(this.film ? this.film.heads.map((_, head) => this.family(head)) : []);
  /** the question that the selected head's line and frames answer to */
  readonly question = $derived(
    this.show !== PAIR ? this.show : this.families[this.head] === "previous" ? "previous" : "induction",
  );

  async load(name = fieldsAt(location.hash).get("film")): Promise<void> {
    this.stop();
    await this.guarded(async () => {
      this.names = await askJson<string[]>("films");
      const known = name !== null && this.names.includes(name) ? `film?name=${encodeURIComponent(name)}` : "film";
      const told = await askContainer(known);
      this.arrays = told.arrays;
      this.film = told.values as FilmCard;
      this.restore(this.film.name === (fieldsAt(location.hash).get("film") ?? this.names[0]) ? location.hash : "");
    });
  }

  restore(hash: string): void {
    const film = this.film;
    if (!film) return;
    const fields = fieldsAt(hash);
    const step = whole(fields.get("step"));
    this.moment =
      step === null
        ? 0 // a film opens at its beginning
        : Math.max(
            0,
            film.moments.findLastIndex((each) => each.step <= step),
          );
    const head = film.heads.indexOf(fields.get("head") ?? "");
    this.head = head >= 0 ? head : this.best("induction");
    this.sentence = whole(fields.get("sentence"), 0, Math.max(0, film.sentences.length - 1)) ?? 0;
    this.token = whole(fields.get("token"), 0, this.tokens.length - 1) ?? this.inductionToken();
    const show = fields.get("show") ?? "";
    this.show = film.questions.some((each) => each.name === show) ? show : PAIR;
    this.ground = fields.get("on") === "text" ? "text" : "repeats";
  }

  address(): string {
    const film = this.film!;
    return addressOf("film", {
      film: film.name === this.names[0] ? null : film.name,
      step: this.now.step,
      head: film.heads[this.head],
      token: this.token === this.inductionToken() ? null : this.token,
      sentence: this.sentence || null,
      show: this.show === PAIR ? null : this.show,
      on: this.ground === "text" ? "text" : null,
    });
  }

  score(moment: number, head: number, question: string, ground: Ground = this.ground): number {
    const { data, shape } = this.arrays[ground];
    const at = this.film!.questions.findIndex((each) => each.name === question);
    return data[(moment * shape[1] + head) * shape[2] + at];
  }

  entropy(moment: number, head: number): number {
    const { data, shape } = this.arrays.entropy;
    return data[moment * shape[1] + head];
  }

  weight(frame: number, head: number, row: number, column: number): number {
    const { data, shape } = this.arrays[`patterns${this.sentence}`];
    return data[((frame * shape[1] + head) * shape[2] + row) * shape[3] + column] / FULL;
  }

  toggle(): void {
    if (this.playing) return this.stop();
    if (this.moment === this.moments.length - 1) this.moment = 0;
    this.playing = true;
    this.timer = window.setInterval(() => {
      this.moment = Math.min(this.moments.length - 1, this.moment + 1);
      if (this.moment === this.moments.length - 1) this.stop();
    }, TICK);
  }

  stop(): void {
    window.clearInterval(this.timer);
    this.playing = false;
  }

  /** Without motion: from one kept frame to the next, and round. */
  nextFrame(): void {
    const frames = this.film!.frames;
    if (!frames.length) return this.go((this.moment + 1) % this.moments.length);
    const step = frames[(this.frame + 1) % frames.length];
    this.moment = this.moments.findIndex((each) => each.step >= step);
  }

  go(moment: number): void {
    this.stop();
    this.moment = Math.max(0, Math.min(this.moments.length - 1, moment));
  }

  best(question: string): number {
    const last = this.moments.length - 1;
    const scores = this.film!.heads.map((_, head) => this.score(last, head, question, "repeats"));
    return scores.indexOf(Math.max(...scores));
  }

  private family(head: number): "previous" | "induction" | null {
    const last = this.moments.length - 1;
    if (this.score(last, head, "induction", "repeats") >= NAMED) return "induction";
    return this.score(last, head, "previous", "repeats") >= NAMED ? "previous" : null;
  }

  /** The last token that stood in the sentence before: its row shows induction. */
  private inductionToken(): number {
    const found = this.tokens.findLastIndex((token, at) => this.tokens.indexOf(token) < at);
    return found >= 0 ? found : this.tokens.length - 1;
  }
}
