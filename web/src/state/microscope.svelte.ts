// What the microscope is looking at, and what it has been told about it. Components read this and call its verbs.
import { untrack } from "svelte";
import { EXAMPLES, type Example } from "../examples";
import { held, poolFor, type Window } from "../draw/field";
import { Problem, stream, type Field, type Look, type Mix, type ModelCard, type Prediction, type Roles, type SiteCard, type Source, type TokenCard } from "../source/source";
import { answersOf, isRole } from "./roles";
import { BEGINNING, read, write, type State } from "./address";

export interface HeadPlace {
  name: string;
  site: SiteCard;
  siteIndex: number;
  head: number;
}

const WHOLE = 512; // up to here a pattern is fetched whole and exact; past it, as much as the picture can show
const COMPARED = 1024; // past this many tokens a second pass, without the head, waits until it is asked for
const TYPING = 280;
const ASK_AGAIN = 2000; // while another page has the heads tested

/** The head with the largest answer; the first where nobody could answer. */
function best(answers: Float32Array | null): number {
  let found = 0;
  answers?.forEach((answer, head) => {
    if (answer > (answers[found] || -1)) found = head;
  });
  return found;
}

/** How much each head reads one token from another, as far as its thumbnail shows every token. */
function reading(look: Look, query: number, key: number): Float32Array | null {
  if (key < 0 || look.side < look.tokens.length) return null;
  const cells = look.side * look.side;
  return Float32Array.from({ length: look.thumbnails.length / cells }, (_, head) => look.thumbnails[head * cells + query * look.side + key]);
}

export class Microscope {
  model = $state.raw<ModelCard | null>(null);
  look = $state.raw<Look | null>(null);
  field = $state.raw<Field | null>(null);
  overview = $state.raw<Field | null>(null);
  row = $state.raw<{ look: string; head: string; token: number; weights: Float32Array } | null>(null);
  mix = $state.raw<Mix | null>(null);
  prediction = $state.raw<Prediction | null>(null);
  roles = $state.raw<Roles | null>(null);

  text = $state("");
  head = $state(0); // among all heads
  token = $state(0);
  view = $state<State["view"]>("map");
  show = $state("");
  order = $state<State["order"]>("layers");
  aside = $state(false);
  compare = $state(true);
  how = $state<State["how"]>("zero");
  off = $state.raw<string[]>([]);
  window = $state.raw<Window>({ row: 0, column: 0, span: 1 });

  working = $state(0);
  problem = $state<string | null>(null);

  heads = $derived.by((): HeadPlace[] => (this.model?.sites ?? []).flatMap((site, siteIndex) =>
    Array.from({ length: site.n_heads }, (_, head) => ({ name: `${site.name}.${head}`, site, siteIndex, head }))));
  here = $derived<HeadPlace | undefined>(this.heads[this.head]);
  tokens = $derived<TokenCard[]>(this.look && this.here ? stream(this.look, this.here.site.queries) : []); // rows: who looks
  keys = $derived<TokenCard[]>(this.look && this.here ? stream(this.look, this.here.site.keys) : []); // columns: what is looked at
  length = $derived(this.tokens.length);
  extent = $derived(Math.max(this.length, this.keys.length));
  example = $derived<Example | undefined>(EXAMPLES.find((example) => example.text === this.text));
  without = $derived.by(() => {
    const name = this.here?.name;
    if (!this.source.live) return [];
    return !this.compare || !name || this.off.includes(name) ? this.off : [...this.off, name];
  });

  private typing: ReturnType<typeof setTimeout> | undefined;
  private reading: AbortController | undefined;
  private failed = "";

  constructor(
    readonly source: Source,
    private readonly ownsAddress: boolean,
  ) {}

  async start(): Promise<void> {
    try {
      this.model = await this.source.model();
      this.problem = null;
    } catch (error) {
      this.problem = (error as Error).message;
      return;
    }
    this.fetchRoles();
    await this.restore(this.ownsAddress ? read(location.hash) : BEGINNING);
  }

  private async fetchRoles(): Promise<void> {
    this.roles = await this.source.roles().catch(() => null);
    if (this.roles?.state === "testing") setTimeout(() => this.fetchRoles(), ASK_AGAIN);
  }

  /** Have every head tested for every role; other questions wait until that is done. */
  async testHeads(): Promise<void> {
    if (!this.roles || this.roles.state !== "untested") return;
    const before = this.roles;
    this.roles = { ...before, state: "testing" };
    this.roles = (await this.during("roles", this.source.testHeads(), new AbortController().signal)) ?? before;
  }

  /** Show what an address says; without a text, the first example. */
  async restore(state: State): Promise<void> {
    const { view, show, order, aside, compare, how, off } = state;
    const known = new Set(this.heads.map((place) => place.name));
    Object.assign(this, { view, show, order, aside, compare, how, off: off.filter((name) => known.has(name)) });
    const kept = state.look ?? this.source.first ?? null;
    const wanted = state.text !== null ? { text: state.text } : kept !== null ? { look: kept } : null;
    if (this.source.live && wanted === null) return this.openExample(EXAMPLES[0]);
    await this.open(this.source.live && wanted !== null ? wanted : { look: "" }, (look) => ({
      head: state.head === null ? best(this.answersIn(look, "induction")) : this.heads.findIndex((place) => place.name === state.head),
      token: state.token ?? Infinity,
    }));
  }

  /** The address of what is shown now. */
  address(): string {
    const { view, show, order, aside, compare, how, off } = this;
    const opened = this.look ? { text: this.look.text, look: this.look.look, token: this.token } : { text: null, look: null, token: null };
    return write({ ...opened, head: this.here?.name ?? null, view, show, order, aside, compare, how, off });
  }

  /** Read a text (or a look the program keeps). The last picture stays, whole, until the new one is there. */
  async open(wanted: { text: string } | { look: string }, stand?: (look: Look) => { head: number; token: number }): Promise<void> {
    clearTimeout(this.typing);
    this.reading?.abort();
    const reading = (this.reading = new AbortController());
    if ("text" in wanted) this.text = wanted.text;
    if ("text" in wanted && wanted.text === "") return;
    const look = await this.during("look", this.source.look(wanted, reading.signal), reading.signal);
    if (!look) return;
    const { head, token } = stand?.(look) ?? { head: this.head, token: this.token >= this.length - 1 ? Infinity : this.token };
    const { name, site } = this.heads[head] ?? this.here ?? this.heads[0];
    const [rows, columns] = [stream(look, site.queries).length, stream(look, site.keys).length];
    const span = Math.max(rows, columns);
    const field = await this.during("weights", this.rectangle(look, name, [0, rows], [0, columns], poolFor(span, WHOLE), reading.signal), reading.signal);
    if (!field) return;
    if (!("text" in wanted)) this.text = look.text;
    if (span > COMPARED) this.compare = false;
    Object.assign(this, { look, field, token: Math.min(token, rows - 1), window: { row: 0, column: 0, span } });
    if (head >= 0) this.head = head;
  }

  openExample(example: Example): Promise<void> {
    return this.open({ text: example.text }, (look) => {
      const find = (word: string | undefined) => look.tokens.findLastIndex((token) => token.text.trim() === word);
      const token = find(example.at) >= 0 ? find(example.at) : look.tokens.length - 1;
      return { token, head: best(reading(look, token, find(example.reads)) ?? this.answersIn(look, example.by)) };
    });
  }

  type(text: string): void {
    this.text = text;
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.open({ text }), TYPING);
  }

  /** The answers of all heads to one question, or their shares of the next token's logit. */
  answers(question: string): Float32Array | null {
    if (question === "share") return this.mix ? this.mix.shares.map(Math.abs) : null;
    if (isRole(question)) return this.roles && answersOf(this.roles, question, this.heads.map((place) => place.name));
    return this.look && this.answersIn(this.look, question);
  }

  private answersIn(look: Look, question: string): Float32Array | null {
    const index = this.model?.questions.findIndex((card) => card.name === question) ?? -1;
    return index < 0 ? null : look.answers.subarray(index * this.heads.length, (index + 1) * this.heads.length);
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

  keepOff(name: string): void {
    this.off = this.off.includes(name) ? this.off.filter((other) => other !== name) : [...this.off, name];
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

  whole = $derived(this.extent <= WHOLE);

  /** Effects: each fetches what its picture needs, and cancels itself when that changes. */
  fetchField(): (() => void) | void {
    const { look, here, length, keys } = this;
    if (!look || !here) return;
    if (this.whole) return this.fetch("weights", (signal) => this.rectangle(look, here.name, [0, length], [0, keys.length], 1, signal), (field) => (this.field = field));
    const { row, column, span } = this.window;
    const pool = poolFor(span, WHOLE);
    const range = (at: number, end: number): [number, number] => [Math.floor(at / pool) * pool, Math.min(end, Math.ceil((at + span) / pool) * pool)];
    return this.fetch("weights", (signal) => this.rectangle(look, here.name, range(row, length), range(column, keys.length), pool, signal), (field) => (this.field = field));
  }

  fetchOverview(): (() => void) | void {
    const { look, here, length, keys, extent } = this;
    if (!look || !here || this.whole) return;
    return this.fetch("overview", (signal) => this.rectangle(look, here.name, [0, length], [0, keys.length], poolFor(extent, WHOLE), signal), (field) => (this.overview = field));
  }

  fetchRow(): (() => void) | void {
    const { look, here, token, length, keys, field } = this;
    if (!look || !here || token >= length) return;
    if (this.whole) {
      if (!field || field.look !== look.look || field.head !== here.name) return;
      this.row = { look: look.look, head: here.name, token, weights: field.weights.subarray(token * keys.length, (token + 1) * keys.length) };
      return;
    }
    return this.fetch("row", (signal) => this.rectangle(look, here.name, [token, token + 1], [0, keys.length], 1, signal), (row) => (this.row = { look: row.look, head: row.head, token: row.rows[0], weights: row.weights }));
  }

  fetchMix(): (() => void) | void {
    const { look, here, token } = this;
    if (!look || !here) return;
    const wanted = { look: look.look, site: here.site.name, position: token, toward: null };
    this.mix = this.source.live ? untrack(() => this.mix) : null; // a file holds the mix of few places: show none rather than another's
    return this.fetch("mix", (signal) => this.source.mix(wanted, signal), (mix) => (this.mix = mix));
  }

  fetchPrediction(): (() => void) | void {
    const { look, here, token, without, how } = this;
    if (!look || !here) return;
    const written = stream(look, "written");
    const position = stream(look, here.site.queries) === written ? token : written.length - 1;
    const wanted = { look: look.look, position, off: without, how, count: 6 };
    return this.fetch("predict", (signal) => this.source.predict(wanted, signal), (prediction) => (this.prediction = prediction));
  }

  private rectangle(look: Look, head: string, rows: [number, number], columns: [number, number], pool: number, signal: AbortSignal): Promise<Field> {
    return this.source.weights({ look: look.look, head, rows, columns, pool, how: "max" }, signal);
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
