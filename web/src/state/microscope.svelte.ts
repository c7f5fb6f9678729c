// What the microscope is looking at, and what it has been told about it. Components read this and call its verbs.
import { untrack } from "svelte";
import { EXAMPLES, type Example } from "../examples";
import { held, poolFor, type Window } from "../draw/field";
import { Problem, stream, type Edge, type Field, type Importance, type Look, type Measure, type Mix, type ModelCard, type PaperClaim, type Prediction, type Progress, type Roles, type Source, type TokenCard } from "../source/source";
import { type Place, type State } from "./address";
import { Lens } from "./lens.svelte";
import { answersIn, best, placesOf, reading, type HeadPlace } from "./reading";
import { answersOf, isRole } from "./roles";

const WHOLE = 512; // up to here a pattern is fetched whole and exact; past it, as much as the picture can show
const COMPARED = 1024; // past this many tokens a second pass, without the head, waits until it is asked for
const TYPING = 280;
const ASK_AGAIN = 2000; // while another page has the heads tested
const PROGRESS = 600;
const GUESSES = 6;
const GUESSES_CUT = 12; // how many are shown where a cut is drawn on them

/** A model and the way to it. */
interface Scene {
  source: Source;
  model: ModelCard;
}

/** One line of a pattern: what a token reads, or who reads it. */
export interface Line {
  look: string;
  head: string;
  token: number;
  weights: Float32Array;
}

type Stand = (look: Look) => { head: number; token: number; zoom?: Window | null };

export class Microscope {
  source = $state.raw<Source>(null!);
  model = $state.raw<ModelCard | null>(null);
  look = $state.raw<Look | null>(null);
  field = $state.raw<Field | null>(null);
  overview = $state.raw<Field | null>(null);
  row = $state.raw<Line | null>(null);
  column = $state.raw<Line | null>(null);
  mix = $state.raw<Mix | null>(null);
  prediction = $state.raw<Prediction | null>(null);
  importance = $state.raw<Importance | null>(null);
  unweighed = $state(""); // why the heads' importance is not known
  roles = $state.raw<Roles | null>(null);
  featured = $state.raw<PaperClaim[]>([]);

  text = $state("");
  token = $state(0);
  show = $state("");
  order = $state<State["order"]>("layers");
  cuts = $state.raw<Edge[]>([]);
  toward = $state<number | null>(null);
  window = $state.raw<Window>({ row: 0, column: 0, span: 1 });

  working = $state(0);
  progress = $state.raw<Progress | null>(null); // of work that takes a while
  problem = $state<string | null>(null);

  heads = $derived.by((): HeadPlace[] => placesOf(this.model));
  here = $derived<HeadPlace | undefined>(this.heads.find((place) => place.name === this.lens.head) ?? this.heads[0]);
  tokens = $derived<TokenCard[]>(this.look && this.here ? stream(this.look, this.here.site.queries) : []); // rows: who looks
  keys = $derived<TokenCard[]>(this.look && this.here ? stream(this.look, this.here.site.keys) : []); // columns: what is looked at
  length = $derived(this.tokens.length);
  extent = $derived(Math.max(this.length, this.keys.length));
  whole = $derived(this.extent <= WHOLE);
  example = $derived<Example | undefined>(EXAMPLES.find((example) => example.text === this.text));
  measure = $derived.by((): Measure => (this.source.live ? this.lens.measure : "weight")); // a file holds weights
  without = $derived.by(() => {
    const { off, compare } = this.lens;
    const name = this.here?.name;
    const known = off.filter((other) => this.heads.some((place) => place.name === other));
    if (!this.source.live) return [];
    return !compare || !name || known.includes(name) ? known : [...known, name];
  });
  edges = $derived(this.cuts.filter((edge) => this.inText(edge)));
  /** What the darkest colour stands for. */
  top = $derived.by(() => {
    if (this.measure !== "value") return 1;
    const all = this.whole ? this.field : (this.overview ?? this.field);
    return Math.max(1e-9, all?.measure === "value" ? all.weights.reduce((most, value) => Math.max(most, value), 0) : 1);
  });

  private typing: ReturnType<typeof setTimeout> | undefined;
  private reading: AbortController | undefined;
  private failed = "";

  /** `follows`: it stands beside another, whose head it shows where its model has one of that name. */
  constructor(
    source: Source,
    readonly lens: Lens = new Lens(),
    private readonly follows = false,
  ) {
    this.source = source;
  }

  get head(): number {
    return Math.max(0, this.heads.indexOf(this.here!));
  }

  set head(index: number) {
    this.lens.head = this.heads[index]?.name ?? this.lens.head;
  }

  /** Show what an address says; without a text, the first example. */
  async restore(state: State): Promise<void> {
    Object.assign(this, { show: state.show, order: state.order, cuts: state.cuts, toward: state.toward });
    const scene = await this.sceneOf(state.model);
    if (!scene) return;
    const head = placesOf(scene.model).findIndex((place) => place.name === state.head);
    const kept = state.look ?? scene.source.first ?? null;
    const wanted = state.text !== null ? { text: state.text } : kept !== null ? { look: kept } : null;
    if (scene.source.live && wanted === null) return this.openExample(EXAMPLES[0], { head, token: state.token }, scene);
    await this.open(
      scene.source.live && wanted !== null ? wanted : { look: "" },
      (look) => ({ head: head < 0 && !this.follows ? best(answersIn(look, scene.model, "induction")) : head, token: state.token ?? Infinity, zoom: state.zoom }),
      scene,
    );
  }

  /** The same text through another model. */
  async useModel(name: string): Promise<void> {
    const scene = await this.sceneOf(name);
    if (scene) await this.open({ text: this.look?.text ?? this.text }, undefined, scene);
  }

  private async sceneOf(name: string | null): Promise<Scene | undefined> {
    if (this.model && (name === null || name === this.model.name)) return { source: this.source, model: this.model };
    const source = name === null ? this.source : (this.source.of?.(name) ?? this.source);
    const model = await this.during("model", source.model(), new AbortController().signal);
    return model && { source, model };
  }

  /** Where this microscope stands, as an address says it. `first` is the model that needs no name. */
  place(first: string | undefined): Place {
    const model = this.model && this.model.name !== first ? this.model.name : null;
    return this.look ? { model, text: this.look.text, look: this.look.look, token: this.token } : { model, text: null, look: null, token: null };
  }

  /** What is shown now. */
  state(first: string | undefined, other: Place | null): State {
    const { show, order, cuts, toward, window, extent } = this;
    const zoom = window.span < extent - 0.01 ? window : null;
    return { ...this.place(first), ...this.lens.told(), head: this.here?.name ?? null, zoom, show, order, cuts, toward, other };
  }

  /** Read a text (or a look the program keeps). The last picture stays, whole, until the new one is there. */
  async open(wanted: { text: string } | { look: string }, stand?: Stand, scene: Scene = { source: this.source, model: this.model! }): Promise<void> {
    clearTimeout(this.typing);
    this.reading?.abort();
    const reading = (this.reading = new AbortController());
    if ("text" in wanted) this.text = wanted.text;
    if ("text" in wanted && wanted.text === "") return;
    const look = await this.during("look", scene.source.look(wanted, reading.signal), reading.signal);
    if (!look) return;
    const places = placesOf(scene.model);
    const named = places.findIndex((place) => place.name === this.lens.head);
    const at = stand?.(look) ?? { head: named, token: this.token >= this.length - 1 ? Infinity : this.token };
    const { name, site } = places[Math.max(0, at.head)];
    const [rows, columns] = [stream(look, site.queries).length, stream(look, site.keys).length];
    const span = Math.max(rows, columns);
    const field = await this.during("weights", this.rectangle(look, name, [0, rows], [0, columns], poolFor(span, WHOLE), { signal: reading.signal, scene }), reading.signal);
    if (!field) return;
    if (!("text" in wanted)) this.text = look.text;
    if (span > COMPARED) this.lens.compare = false;
    if (scene.model !== this.model) this.enter(scene);
    Object.assign(this, { look, field, token: Math.min(at.token, rows - 1), window: at.zoom ? held(at.zoom, span) : { row: 0, column: 0, span } });
    if (at.head >= 0 || !this.follows) this.lens.head = name;
  }

  /** Another model: what was said of the last one is forgotten. */
  private enter(scene: Scene): void {
    Object.assign(this, { ...scene, roles: null, featured: [], importance: null, mix: null, prediction: null, row: null, column: null, overview: null, toward: null });
    this.fetchRoles();
    scene.source.featured().then((claims) => scene.model === this.model && (this.featured = claims), () => undefined);
  }

  private async fetchRoles(): Promise<void> {
    const { source } = this;
    const roles = await source.roles().catch(() => null);
    if (source !== this.source) return;
    this.roles = roles;
    if (roles?.state === "testing") setTimeout(() => this.fetchRoles(), ASK_AGAIN);
  }

  /** Have every head tested for every role; other questions wait until that is done. */
  async testHeads(): Promise<void> {
    if (!this.roles || this.roles.state !== "untested") return;
    const before = this.roles;
    this.roles = { ...before, state: "testing" };
    this.roles = (await this.during("roles", this.source.testHeads(), new AbortController().signal)) ?? before;
    this.featured = await this.source.featured().catch(() => this.featured);
  }

  openExample(example: Example, at: { head: number; token: number | null } = { head: -1, token: null }, scene: Scene = { source: this.source, model: this.model! }): Promise<void> {
    return this.open(
      { text: example.text },
      (look) => {
        const find = (word: string | undefined) => look.tokens.findLastIndex((token) => token.text.trim() === word);
        const token = at.token ?? (find(example.at) >= 0 ? find(example.at) : look.tokens.length - 1);
        return { token, head: at.head >= 0 ? at.head : best(reading(look, token, find(example.reads)) ?? answersIn(look, scene.model, example.by)) };
      },
      scene,
    );
  }

  type(text: string): void {
    this.text = text;
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.open({ text }), TYPING);
  }

  /** Let the text go on with a token. */
  append(text: string): void {
    if (this.look) this.open({ text: this.look.text + text }, () => ({ head: this.head, token: Infinity }));
  }

  /** The answers of all heads to one question, their shares of a token's logit, or their importance. */
  answers(question: string): Float32Array | null {
    if (question === "share") return this.mix ? this.mix.shares.map(Math.abs) : null;
    if (question === "importance") return this.importance?.look === this.look?.look ? (this.importance?.importance.map(Math.abs) ?? null) : null;
    if (isRole(question)) return this.roles && answersOf(this.roles, question, this.heads.map((place) => place.name));
    return this.look && this.model && answersIn(this.look, this.model, question);
  }

  rankBy(question: string): void {
    this.show = question;
    this.order = "ranked";
  }

  setOrder(order: State["order"]): void {
    this.order = order;
    if (order === "ranked" && !this.show) this.show = this.asked("induction") ? "induction" : "previous";
  }

  /** At how many positions of this text a question could be asked. */
  asked(question: string): number {
    const index = this.model?.questions.findIndex((card) => card.name === question) ?? -1;
    return index < 0 || !this.look ? 0 : this.look.asked[index];
  }

  /** Cut an arrow, or mend it. */
  cut(query: number, key: number): void {
    const head = this.here!.name;
    const same = (edge: Edge) => edge.head === head && edge.query === query && edge.key === key;
    this.cuts = this.cuts.some(same) ? this.cuts.filter((edge) => !same(edge)) : [...this.cuts, { head, query, key }];
  }

  private inText(edge: Edge): boolean {
    const place = this.heads.find(({ name }) => name === edge.head);
    return !!place && !!this.look && edge.query < stream(this.look, place.site.queries).length && edge.key < stream(this.look, place.site.keys).length;
  }

  move(window: Window): void {
    this.window = held(window, this.extent);
  }

  showAll(): void {
    this.window = { row: 0, column: 0, span: this.extent };
  }

  /** A head of another site may look from, and at, another text. */
  settle(): void {
    if (!this.length) return;
    if (this.token >= this.length) this.token = this.length - 1;
    if (this.window.span > this.extent) this.showAll();
  }

  /** Effects: each fetches what its picture needs, and cancels itself when that changes. */
  fetchField(): (() => void) | void {
    const { look, here, length, keys, measure } = this;
    const { aside } = this.lens;
    if (!look || !here) return;
    const { row, column, span } = this.window;
    const pool = this.whole ? 1 : poolFor(span, WHOLE);
    const range = (at: number, end: number): [number, number] => (this.whole ? [0, end] : [Math.floor(at / pool) * pool, Math.min(end, Math.ceil((at + span) / pool) * pool)]);
    return this.fetch("weights", (signal) => this.rectangle(look, here.name, range(row, length), range(column, keys.length), pool, { signal, measure, aside }), (field) => (this.field = field));
  }

  fetchOverview(): (() => void) | void {
    const { look, here, length, keys, extent, measure } = this;
    const { aside } = this.lens;
    if (!look || !here || this.whole) return;
    return this.fetch("overview", (signal) => this.rectangle(look, here.name, [0, length], [0, keys.length], poolFor(extent, WHOLE), { signal, measure, aside }), (field) => (this.overview = field));
  }

  /** The selected token's row: exact weights, whatever the picture shows. */
  fetchRow(): (() => void) | void {
    const { look, here, token, length, keys, field } = this;
    if (!look || !here || token >= length) return;
    const line = (weights: Float32Array): Line => ({ look: look.look, head: here.name, token, weights });
    if (this.whole && this.measure === "weight") {
      if (field?.look !== look.look || field.head !== here.name || field.measure !== "weight") return;
      this.row = line(field.weights.subarray(token * keys.length, (token + 1) * keys.length));
      return;
    }
    return this.fetch("row", (signal) => this.rectangle(look, here.name, [token, token + 1], [0, keys.length], 1, { signal }), (row) => (this.row = line(row.weights)));
  }

  /** The selected token's column: who reads it, and how much. */
  fetchColumn(): (() => void) | void {
    const { look, here, token, length, keys } = this;
    if (!look || !here || this.lens.facing !== "read" || token >= keys.length) return;
    const put = (column: Field) => (this.column = { look: look.look, head: here.name, token, weights: column.weights });
    return this.fetch("column", (signal) => this.rectangle(look, here.name, [0, length], [token, token + 1], 1, { signal }), put);
  }

  fetchMix(): (() => void) | void {
    const { look, here, token, toward } = this;
    if (!look || !here) return;
    const wanted = { look: look.look, site: here.site.name, position: token, toward };
    this.mix = this.source.live ? untrack(() => this.mix) : null; // a file holds the mix of few places: show none rather than another's
    return this.fetch("mix", (signal) => this.source.mix(wanted, signal), (mix) => (this.mix = mix));
  }

  fetchPrediction(): (() => void) | void {
    const { look, here, token, without, edges } = this;
    const { how, sampling } = this.lens;
    if (!look || !here) return;
    const written = stream(look, "written");
    const position = stream(look, here.site.queries) === written ? token : written.length - 1;
    const wanted = { look: look.look, position, off: without, cuts: edges, how, count: sampling ? GUESSES_CUT : GUESSES, sampling };
    return this.fetch("predict", (signal) => this.source.predict(wanted, signal), (prediction) => (this.prediction = prediction));
  }

  /** Work that takes longer than a moment says how far it is. */
  followProgress(): (() => void) | void {
    const { source } = this;
    if (this.working === 0 || !source.progress) return;
    const asking = setInterval(async () => (this.progress = await source.progress!().catch(() => null)), PROGRESS);
    return () => {
      clearInterval(asking);
      this.progress = null;
    };
  }

  /** How much the heads matter is measured only for those who ask. */
  fetchImportance(): (() => void) | void {
    const { look } = this;
    if (!look || this.show !== "importance") return;
    const asking = new AbortController();
    const answer = this.source.importance({ look: look.look }, asking.signal);
    untrack(() => {
      this.working++;
      this.unweighed = "";
    });
    answer
      .then((found) => asking.signal.aborted || (this.importance = found))
      .catch((error: Error) => asking.signal.aborted || (this.unweighed = error.message))
      .finally(() => this.working--);
    return () => asking.abort();
  }

  private rectangle(
    look: Look,
    head: string,
    rows: [number, number],
    columns: [number, number],
    pool: number,
    { signal, measure = "weight", aside = false, scene }: { signal: AbortSignal; measure?: Measure; aside?: boolean; scene?: Scene },
  ): Promise<Field> {
    return (scene?.source ?? this.source).weights({ look: look.look, head, rows, columns, pool, how: "max", measure, aside: measure === "row" && aside }, signal);
  }

  private fetch<Answer>(what: string, ask: (signal: AbortSignal) => Promise<Answer>, put: (answer: Answer) => void): () => void {
    const asking = new AbortController();
    const answer = ask(asking.signal);
    untrack(() => this.during(what, answer, asking.signal)).then((found) => found && put(found));
    return () => asking.abort();
  }

  /** Waits, shows that it waits, and turns a failure into a sentence above the last good picture. */
  private async during<Answer>(what: string, answer: Promise<Answer>, signal: AbortSignal): Promise<Answer | undefined> {
    this.working++;
    try {
      const found = await answer;
      if (signal.aborted) return undefined;
      if (what === "look" || what === this.failed) this.problem = null;
      return found;
    } catch (error) {
      const absent = error instanceof Problem && error.kind === "NotInFile"; // said where it is missing
      if (!signal.aborted && !absent) [this.failed, this.problem] = [what, (error as Error).message];
      return undefined;
    } finally {
      this.working--;
    }
  }
}
