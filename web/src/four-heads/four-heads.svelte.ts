// The state of the four-heads page: targets, the training run that streams in, and the selected word.
import type { components } from "../api";
import { addressOf } from "../address-fields";
import { PageState } from "../source/page-state.svelte";
import { askJson } from "../source/server";
import {
  arrowText,
  INITIAL,
  moveTargets,
  padToFour,
  readAddress,
  repeatedWord,
  type State,
  type Target,
  withGuesses,
  writeAddress,
} from "./targets";
import type { Asked, Finished, Snapshot } from "./craft-heads";
import { train } from "./train";
import { writtenTarget } from "./target-weights";
import { parseArrows } from "./written-arrows";

type Schemas = components["schemas"];

export interface Run {
  words: string[];
  steps: number;
  snapshots: Snapshot[];
  done: Finished | null;
}

const PACE = 55; // ms a snapshot: training takes less time than watching it
const FAVOURITE = "it";

export class HeadTrainer extends PageState {
  sentence = $state("");
  words = $state.raw<string[]>([]);
  targets = $state.raw<Target[]>([]);
  dHead = $state(INITIAL.dHead);
  steps = $state(INITIAL.steps);
  places = $state(INITIAL.places);
  word = $state(0);
  run = $state.raw<Run | null>(null);
  shown = $state(0); // which snapshot
  training = $state(false);
  lowered = $state(false); // the sentence's first letter was made small, to have a word twice
  first = ""; // the first sentence, which needs no address
  private firstTargets = "";
  private going: AbortController | null = null;

  get snapshot(): Snapshot | null {
    return this.run?.snapshots[this.shown] ?? null;
  }

  get finished(): Finished | null {
    return this.run?.done ?? null;
  }

  async start(address: string): Promise<void> {
    await this.guarded(async () => {
      const first = await askJson<Schemas["SentenceResponse"]>("lab/sentence", {});
      this.first = first.sentence;
      this.firstTargets = JSON.stringify(padToFour(first.targets as Target[]));
      this.use(first);
      await this.restore(readAddress(address));
    });
  }

  async restore(state: State): Promise<void> {
    if (state.sentence !== null && state.sentence !== this.sentence)
      await this.guarded(() => this.fetchSentence({ sentence: state.sentence! }, []));
    if (state.targets.length) this.targets = padToFour(state.targets);
    [this.dHead, this.steps, this.places] = [state.dHead, state.steps, state.places];
    const favourite = this.words.indexOf(FAVOURITE);
    this.word = Math.min(state.word ?? Math.max(0, favourite), this.words.length - 1);
    await this.train();
  }

  address(): string {
    const own = this.sentence !== this.first || JSON.stringify(this.targets) !== this.firstTargets;
    const { dHead, steps, places, word } = this;
    return writeAddress({
      sentence: own ? this.sentence : null,
      targets: this.targets,
      dHead,
      steps,
      places,
      word: word === this.words.indexOf(FAVOURITE) ? null : word,
    });
  }

  /** Another sentence: the arrows go along with the words that stay. */
  async setSentence(sentence: string): Promise<void> {
    const before = this.words;
    const done = await this.guarded(() => this.fetchSentence({ sentence }, before));
    if (done) await this.train();
  }

  /** A sentence of the small grammar, with its own targets. */
  async newSentence(): Promise<void> {
    const seed = Math.floor(Math.random() * 1000);
    const done = await this.guarded(() => this.fetchSentence({ seed }, null));
    if (done) await this.train();
  }

  /** With places or without. Without them only a repeated word shows a difference: “The … the” becomes one. */
  async setPlaces(places: boolean): Promise<void> {
    this.places = places;
    const lower = this.sentence.charAt(0).toLowerCase() + this.sentence.slice(1);
    this.lowered = false;
    if (places || repeatedWord(this.words) || !repeatedWord(lower.split(" "))) return this.train();
    await this.setSentence(lower);
    this.lowered = true;
  }

  change(head: number, part: Partial<Target>): void {
    this.targets = this.targets.map((target, at) => (at === head ? { ...target, ...part } : target));
  }

  arrowText(head: number): string {
    return arrowText(this.targets[head], this.words);
  }

  /** Arrows as the person wrote them; false, with a sentence, if they could not be read or trained to. */
  async setArrows(head: number, text: string): Promise<boolean> {
    const before = this.targets;
    const done = await this.guarded(async () => {
      const { arrows, shares } = parseArrows(text, this.words);
      this.change(head, writtenTarget(before[head], arrows, shares));
    });
    if (done) await this.train();
    if (done && this.problem) this.targets = before;
    return done && !this.problem;
  }

  async train(): Promise<void> {
    this.going?.abort();
    const going = (this.going = new AbortController());
    const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.training = true;
    await this.guarded(async () => {
      const { words, targets, dHead, steps, places } = this;
      const asked: Asked = { words, targets, dHead, steps, places };
      let begun: Run = { words, steps, snapshots: [], done: null };
      for await (const told of train(asked, going.signal)) {
        if ("done" in told) begun = { ...begun, done: told.done };
        else {
          begun = { ...begun, snapshots: [...begun.snapshots, told.snapshot] };
          if (!quick) await new Promise((resolve) => setTimeout(resolve, PACE));
        }
        if (going.signal.aborted) return;
        const latest = begun.snapshots.at(-1);
        if (latest && (!quick || latest.step === begun.steps)) {
          this.run = begun;
          this.shown = begun.snapshots.length - 1;
        }
      }
    });
    if (this.going === going) this.training = false;
  }

  /** Opens these heads as a model of the server; the address at which the microscope shows them. */
  async openInMicroscope(): Promise<string | null> {
    let address: string | null = null;
    await this.guarded(async () => {
      // the first head that has a target for this word
      const head = this.targets.findIndex((target) => target.arrows.some(([from]) => from === this.word));
      const opened = await askJson<Schemas["OpenedModel"]>("lab/craft/open", {
        sentence: this.sentence,
        ...this.finished?.made,
      });
      address = addressOf("microscope", { ...opened, head: `0.${Math.max(0, head)}`, token: this.word });
    });
    return address;
  }

  private async fetchSentence(asked: Schemas["SentenceRequest"], before: string[] | null): Promise<void> {
    const card = await askJson<Schemas["SentenceResponse"]>("lab/sentence", asked);
    const guessed = padToFour(card.targets as Target[]);
    this.use(card, before?.length ? withGuesses(moveTargets(this.targets, before, card.words), guessed) : null);
  }

  private use(card: Schemas["SentenceResponse"], targets: Target[] | null = null): void {
    [this.sentence, this.words] = [card.sentence, card.words];
    this.targets = targets ?? padToFour(card.targets as Target[]);
    const favourite = card.words.indexOf(FAVOURITE);
    this.word = favourite >= 0 ? favourite : card.words.length - 1;
  }
}
