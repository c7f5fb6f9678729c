// What the microscope is looking at, and what it has been told about it. Components read this and call its verbs.
import { EXAMPLES, type Example } from "../../examples";
import { held, poolFor, type Window } from "../../draw/heat-map";
import { stream, type Edge, type Field, type Importance, type Look, type Measure, type Mix, type ModelCard, type PaperClaim, type Prediction, type Roles, type Source, type TokenCard } from "../../source/source";
import { type Place, type State } from "./address";
import { Lens } from "./settings.svelte";
import { answersIn, best, placesOf, reading, type HeadPlace } from "./look-statistics";
import { answersOf, isRole } from "./roles";
import { Waiting } from "./pending.svelte";

export const WHOLE = 512; // up to here a pattern is fetched whole and exact; past it, as much as the picture can show
const COMPARED = 1024; // past this many tokens a second pass, without the head, waits until it is asked for
const TYPING = 280;
const ASK_AGAIN = 2000; // while another page has the heads tested

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

/** Whose logit is split over the heads; the likeliest next token's where none is named. */
type Asked = Pick<State, "toward" | "minus">;
type Stand = (look: Look) => { head: number; token: number; zoom?: Window | null; asked?: Asked };

export class Microscope extends Waiting {
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
  minus = $state<number | null>(null);
  window = $state.raw<Window>({ row: 0, column: 0, span: 1 });

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

  /** `follows`: it stands beside another, whose head it shows where its model has one of that name. */
  constructor(
    source: Source,
    readonly lens: Lens = new Lens(),
    private readonly follows = false,
  ) {
    super();
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
    Object.assign(this, { show: state.show, order: state.order, cuts: state.cuts });
    const scene = await this.sceneOf(state.model);
    if (!scene) return;
    const head = placesOf(scene.model).findIndex((place) => place.name === state.head);
    const kept = state.look ?? scene.source.first ?? null;
    const wanted = state.text !== null ? { text: state.text } : kept !== null ? { look: kept } : null;
    const asked = { toward: state.toward, minus: state.minus };
    if (scene.source.live && wanted === null) return this.openExample(EXAMPLES[0], { head, token: state.token, asked }, scene);
    await this.open(
      scene.source.live && wanted !== null ? wanted : { look: "" },
      (look) => ({ head: head < 0 && !this.follows ? best(answersIn(look, scene.model, "induction")) : head, token: state.token ?? Infinity, zoom: state.zoom, asked }),
      scene,
    );
  }

  /** The same text through another model. */
  async useModel(name: string): Promise<void> {
    const scene = await this.sceneOf(name);
    if (scene) await this.open({ text: this.look?.text ?? this.text }, undefined, scene);
  }

  /** Have the program open one more model, by its name or folder, and look through it; false, and why, if it will not. */
  async openModel(wanted: string): Promise<boolean> {
    const name = await this.during("opening", this.source.openModel!(wanted), new AbortController().signal);
    if (name !== undefined) await this.useModel(name);
    return name !== undefined && name === this.model?.name;
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
    const { show, order, cuts, toward, minus, window, extent } = this;
    const zoom = window.span < extent - 0.01 ? window : null;
    return { ...this.place(first), ...this.lens.told(), head: this.here?.name ?? null, zoom, show, order, cuts, toward, minus, other };
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
    const [head, token] = [this.lens.head, this.token]; // whoever moves on while the pattern is on its way, stays there
    const [rows, columns] = [stream(look, site.queries).length, stream(look, site.keys).length];
    const span = Math.max(rows, columns);
    const field = await this.during("weights", this.rectangle(look, name, [0, rows], [0, columns], poolFor(span, WHOLE), { signal: reading.signal, scene }), reading.signal);
    if (!field) return;
    if (!("text" in wanted)) this.text = look.text;
    if (span > COMPARED) this.lens.compare = false;
    const asked: Asked | undefined = at.asked ?? (scene.model === this.model ? undefined : { toward: null, minus: null }); // another model, other tokens
    if (scene.model !== this.model) this.enter(scene);
    Object.assign(this, { ...asked, look, field, token: Math.min(this.token === token ? at.token : this.token, rows - 1), window: at.zoom ? held(at.zoom, span) : { row: 0, column: 0, span } });
    if (this.lens.head === head && (at.head >= 0 || !this.follows)) this.lens.head = name;
  }

  /** Another model: what was said of the last one is forgotten. */
  private enter(scene: Scene): void {
    Object.assign(this, { ...scene, roles: null, featured: [], importance: null, mix: null, prediction: null, row: null, column: null, overview: null });
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

  openExample(example: Example, at: { head: number; token: number | null; asked?: Asked } = { head: -1, token: null }, scene: Scene = { source: this.source, model: this.model! }): Promise<void> {
    return this.open(
      { text: example.text },
      (look) => {
        const find = (word: string | undefined) => look.tokens.findLastIndex((token) => token.text.trim() === word);
        const token = at.token ?? (find(example.at) >= 0 ? find(example.at) : look.tokens.length - 1);
        return { token, asked: at.asked, head: at.head >= 0 ? at.head : best(reading(look, token, find(example.reads)) ?? answersIn(look, scene.model, example.by)) };
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

  /** Part of a head's pattern. */
  rectangle(
    look: Look,
    head: string,
    rows: [number, number],
    columns: [number, number],
    pool: number,
    { signal, measure = "weight", aside = false, scene }: { signal: AbortSignal; measure?: Measure; aside?: boolean; scene?: Scene },
  ): Promise<Field> {
    return (scene?.source ?? this.source).weights({ look: look.look, head, rows, columns, pool, how: "max", measure, aside: measure === "row" && aside }, signal);
  }
}
