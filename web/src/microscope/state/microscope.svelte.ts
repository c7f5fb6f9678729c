// The microscope's state: model, look, selection, and the answers fetched for them.
import { EXAMPLES, type Example } from "../../examples";
import { clampViewport, poolFor, type Viewport } from "../../draw/heat-map";
import {
  streamsOf,
  tokensOf,
  type Edge,
  type Tile,
  type Importance,
  type Look,
  type MediaFile,
  type Measure,
  type Attribution,
  type ModelCard,
  type PaperClaim,
  type Prediction,
  type Received,
  type Roles,
  type Source,
  type TokenCard,
  type Wanted,
} from "../../source/source";
import type { ClassShare } from "../head/where";
import { type Place, type State } from "./address";
import { Explaining } from "../why/explain.svelte";
import { Settings } from "./settings.svelte";
import { scoresIn, argmax, headsOf, reachedHead, type HeadInfo } from "./look-statistics";
import { roleScores, isRole } from "./roles";
import { PendingRequests } from "./pending.svelte";
import { selectExample } from "./selection";
import type { ExamplePlace, LogitTarget, ModelSource, PatternLine, Selection } from "./selection";
import { mediaPlace, takesText, withAllSites, withFile } from "../media/media-file";

export const WHOLE = 512; // up to here a pattern is fetched whole and exact; past it, as much as the picture can show
const COMPARED = 1024; // past this many tokens a second pass, without the head, waits until it is asked for
const TYPING = 280;
const ASK_AGAIN = 2000; // while another page has the heads tested

export class Microscope extends PendingRequests {
  source = $state.raw<Source>(null!);
  model = $state.raw<ModelCard | null>(null);
  look = $state.raw<Look | null>(null);
  tile = $state.raw<Tile | null>(null);
  overview = $state.raw<Tile | null>(null);
  row = $state.raw<PatternLine | null>(null);
  column = $state.raw<PatternLine | null>(null);
  attribution = $state.raw<Attribution | null>(null);
  prediction = $state.raw<Prediction | null>(null);
  where = $state.raw<{ look: string; head: string; shares: ClassShare[] } | null>(null);
  importance = $state.raw<Importance | null>(null);
  importanceError = $state(""); // why the heads' importance is not known
  roles = $state.raw<Roles | null>(null);
  featured = $state.raw<PaperClaim[]>([]);

  text = $state("");
  file = $state.raw<MediaFile | null>(null); // a picture or sound, looked at with the text
  received = $state.raw<Received | null>(null); // how much attention each key of a picture or sound receives
  sink = $state(0); // the key that receives most of this head's attention, in a picture or sound
  token = $state(0);
  show = $state("");
  order = $state<State["order"]>("layers");
  knockOuts = $state.raw<Edge[]>([]);
  toward = $state<number | null>(null);
  minus = $state<number | null>(null);
  readonly explaining = new Explaining();
  viewport = $state.raw<Viewport>({ row: 0, column: 0, span: 1 });

  heads = $derived.by((): HeadInfo[] => headsOf(this.model));
  here = $derived<HeadInfo | undefined>(this.heads.find((place) => place.name === this.settings.head) ?? this.heads[0]);
  streams = $derived(this.look && this.here ? streamsOf(this.look, this.here.site) : (["text", "text"] as const));
  /** rows: the queries */
  tokens = $derived<TokenCard[]>(this.look && this.here ? tokensOf(this.look, this.streams[0]) : []);
  /** columns: the keys */
  keys = $derived<TokenCard[]>(this.look && this.here ? tokensOf(this.look, this.streams[1]) : []);
  length = $derived(this.tokens.length);
  extent = $derived(Math.max(this.length, this.keys.length));
  whole = $derived(this.extent <= WHOLE);
  example = $derived<Example | undefined>(EXAMPLES.find((example) => example.text === this.text));
  measure = $derived.by((): Measure => (this.source.live ? this.settings.measure : "weight")); // a file holds weights
  ablated = $derived.by(() => {
    const { off, compare } = this.settings;
    const name = this.here?.name;
    const known = off.filter((other) => this.heads.some((place) => place.name === other));
    if (!this.source.live) return [];
    return !compare || !name || known.includes(name) ? known : [...known, name];
  });
  edges = $derived(this.knockOuts.filter((edge) => this.inText(edge)));
  /** What the darkest colour stands for. */
  top = $derived.by(() => {
    if (this.measure !== "value") return 1;
    const all = this.whole ? this.tile : (this.overview ?? this.tile);
    return Math.max(1e-9, all?.measure === "value" ? all.weights.reduce((most, value) => Math.max(most, value), 0) : 1);
  });

  private typing: ReturnType<typeof setTimeout> | undefined;
  private opening: AbortController | undefined;

  /** `follows`: it stands beside another, whose head it shows where its model has one of that name. */
  constructor(
    source: Source,
    readonly settings: Settings = new Settings(),
    readonly follows = false,
  ) {
    super();
    this.source = source;
  }

  /** The colour of the followed head; of the compared one at the right. */
  get colour(): string {
    return this.follows ? "var(--h2)" : "var(--h1)";
  }

  get head(): number {
    return Math.max(0, this.heads.indexOf(this.here!));
  }

  set head(index: number) {
    this.settings.head = this.heads[index]?.name ?? this.settings.head;
  }

  /** Show what an address says; without a text, the first example. */
  async restore(state: State): Promise<void> {
    await this.restoreLook(state);
    this.explaining.apply(state.explain); // about the selected token, which is there by now
  }

  private async restoreLook(state: State): Promise<void> {
    Object.assign(this, { show: state.show, order: state.order, knockOuts: state.knockOuts });
    const opened = await this.modelSource(state.model);
    if (!opened) return;
    const head = headsOf(opened.model).findIndex((place) => place.name === state.head);
    const kept = state.look ?? opened.source.first ?? opened.model.given?.[0]?.look ?? null;
    const wanted = state.text !== null ? { text: state.text } : kept !== null ? { look: kept } : null;
    const asked = { toward: state.toward, minus: state.minus };
    if (opened.source.live && wanted === null && !opened.model.reads.includes("text")) return this.switchModel(opened);
    if (opened.source.live && wanted === null)
      return this.openExample(EXAMPLES[0], { head, token: state.token, asked }, opened);
    await this.open(
      opened.source.live && wanted !== null ? wanted : { look: "" },
      (look) => ({
        head: head < 0 && !this.follows ? argmax(scoresIn(look, opened.model, "induction")) : head,
        token: state.token ?? Infinity,
        zoom: state.zoom,
        asked,
        ...(head < 0 && state.token === null ? mediaPlace(look, null, opened.model) : null),
      }),
      opened,
    );
  }

  /** The same text through another model. */
  async useModel(name: string): Promise<void> {
    const opened = await this.modelSource(name);
    if (opened) await this.open({ text: this.look?.text ?? this.text }, undefined, opened);
  }

  /** Have the server open one more model, by its name or folder, and show it; false if it could not. */
  async openModel(wanted: string): Promise<boolean> {
    const name = await this.track("opening", this.source.openModel!(wanted), new AbortController().signal);
    if (name !== undefined) await this.useModel(name);
    return name !== undefined && name === this.model?.name;
  }

  private async modelSource(name: string | null): Promise<ModelSource | undefined> {
    if (this.model && (name === null || name === this.model.name)) return { source: this.source, model: this.model };
    const source = name === null ? this.source : (this.source.of?.(name) ?? this.source);
    const model = await this.track("model", source.model(), new AbortController().signal);
    return model && { source, model };
  }

  /** Where this microscope stands, as an address says it. `first` is the model that needs no name. */
  place(first: string | undefined): Place {
    const model = this.model && this.model.name !== first ? this.model.name : null;
    return this.look
      ? { model, text: this.look.media ? null : this.look.text, look: this.look.look, token: this.token }
      : { model, text: null, look: null, token: null };
  }

  /** What is shown now. */
  state(first: string | undefined, other: Place | null): State {
    const { show, order, knockOuts, toward, minus, viewport, extent } = this;
    const zoom = viewport.span < extent - 0.01 ? viewport : null;
    return {
      ...this.place(first),
      ...this.settings.values(),
      head: this.here?.name ?? null,
      zoom,
      show,
      order,
      knockOuts,
      toward,
      minus,
      explain: this.explaining.values(),
      other,
    };
  }

  /** Read a text (or a look the program keeps). The last picture stays, whole, until the new one is there. */
  async open(
    given: Wanted,
    select?: Selection,
    opened: ModelSource = { source: this.source, model: this.model! },
  ): Promise<void> {
    clearTimeout(this.typing);
    this.opening?.abort();
    const opening = (this.opening = new AbortController());
    if ("text" in given) this.text = given.text;
    const wanted = withFile(given, this.file, opened.model);
    if ("text" in wanted && wanted.text === "") return;
    const look = await this.track("look", opened.source.look(wanted, opening.signal), opening.signal);
    if (!look) return void (this.model ?? this.switchModel(opened));
    const whole = await this.track("model", withAllSites(opened, look, opening.signal), opening.signal);
    if (!whole) return;
    opened = whole;
    const places = headsOf(opened.model);
    const named = places.findIndex((place) => place.name === this.settings.head);
    const at = select?.(look) ??
      mediaPlace(look, this.look, opened.model, named) ?? {
        head: named,
        token: this.token >= this.length - 1 ? Infinity : this.token,
      };
    const { name, site } = places[reachedHead(look, Math.max(0, at.head))];
    const [head, token] = [this.settings.head, this.token]; // kept if it changes while the pattern is on its way
    const [rows, columns] = streamsOf(look, site).map((stream) => tokensOf(look, stream).length);
    const span = Math.max(rows, columns);
    const tile = await this.track(
      "weights",
      this.fetchWeights(look, name, [0, rows], [0, columns], poolFor(span, WHOLE), { signal: opening.signal, opened }),
      opening.signal,
    );
    if (!tile) return;
    if (!("text" in given)) this.text = look.text;
    if (look.media && !this.look?.media) this.settings.view = "media";
    if (span > COMPARED) this.settings.compare = false;
    // another model has other tokens
    const asked: LogitTarget | undefined =
      at.asked ?? (opened.model === this.model ? undefined : { toward: null, minus: null });
    if (opened.model !== this.model) this.switchModel(opened);
    Object.assign(this, {
      ...asked,
      look,
      tile,
      token: Math.min(this.token === token ? at.token : this.token, rows - 1),
      viewport: at.zoom ? clampViewport(at.zoom, span) : { row: 0, column: 0, span },
    });
    if (this.settings.head === head && (at.head >= 0 || !this.follows)) this.settings.head = name;
  }

  /** Another model: what was said of the last one is forgotten. */
  private switchModel(opened: ModelSource): void {
    Object.assign(this, {
      ...opened,
      roles: null,
      featured: [],
      importance: null,
      attribution: null,
      prediction: null,
      row: null,
      column: null,
      overview: null,
    });
    this.fetchRoles();
    opened.source.featured().then(
      (claims) => opened.model === this.model && (this.featured = claims),
      () => undefined,
    );
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
    this.roles = (await this.track("roles", this.source.testHeads(), new AbortController().signal)) ?? before;
    this.featured = await this.source.featured().catch(() => this.featured);
  }

  openExample(
    example: Example,
    at: ExamplePlace = { head: -1, token: null },
    opened: ModelSource = { source: this.source, model: this.model! },
  ): Promise<void> {
    return this.open({ text: example.text }, selectExample(example, at, opened.model), opened);
  }

  openFile(file: MediaFile | null): Promise<void> {
    this.file = file; // null: back to the text alone
    return this.open({ text: this.model && takesText(this.model) ? this.text : "" });
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
  scores(question: string): Float32Array | null {
    if (question === "share") return this.attribution ? this.attribution.logits.map(Math.abs) : null;
    if (question === "importance")
      return this.importance?.look === this.look?.look ? (this.importance?.importance.map(Math.abs) ?? null) : null;
    const names = this.heads.map((place) => place.name);
    if (isRole(question)) return this.roles && roleScores(this.roles, question, names);
    return this.look && this.model && scoresIn(this.look, this.model, question);
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
  toggleKnockOut(query: number, key: number): void {
    const head = this.here!.name;
    const same = (edge: Edge) => edge.head === head && edge.query === query && edge.key === key;
    this.knockOuts = this.knockOuts.some(same)
      ? this.knockOuts.filter((edge) => !same(edge))
      : [...this.knockOuts, { head, query, key }];
  }

  private inText(edge: Edge): boolean {
    const place = this.heads.find(({ name }) => name === edge.head);
    return (
      !!place &&
      !!this.look &&
      edge.query < tokensOf(this.look, streamsOf(this.look, place.site)[0]).length &&
      edge.key < tokensOf(this.look, streamsOf(this.look, place.site)[1]).length
    );
  }

  move(viewport: Viewport): void {
    this.viewport = clampViewport(viewport, this.extent);
  }

  showAll(): void {
    this.viewport = { row: 0, column: 0, span: this.extent };
  }

  /** A head of another site may look from, and at, another text. */
  clampSelection(): void {
    if (!this.length) return;
    const most = this.settings.facing === "read" ? this.keys.length : this.length;
    if (this.token >= most) this.token = most - 1;
    if (this.viewport.span > this.extent) this.showAll();
  }

  /** Part of a head's pattern. */
  fetchWeights(
    look: Look,
    head: string,
    rows: [number, number],
    columns: [number, number],
    pool: number,
    {
      signal,
      measure = "weight",
      aside = false,
      opened,
    }: { signal: AbortSignal; measure?: Measure; aside?: boolean; opened?: ModelSource },
  ): Promise<Tile> {
    return (opened?.source ?? this.source).weights(
      { look: look.look, head, rows, columns, pool, how: "max", measure, aside: measure === "row" && aside },
      signal,
    );
  }
}
