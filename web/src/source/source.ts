// The interface to the model's data, whether it comes from a server, a notebook or a file.
import type { components } from "../api";

type Schemas = components["schemas"];
/** Every field of a response is sent, also one that has its default value. */
type Sent<T> = { [K in keyof T]-?: Sent<T[K]> };
export type ModelCard = Schemas["ModelInfo"];
export type SiteCard = Schemas["SiteInfo"];
export type QuestionCard = Schemas["QuestionInfo"];
export type TokenCard = Sent<Schemas["Token"]>;
export type Guess = Schemas["NextToken"];
export type LookCard = Sent<Schemas["LookResponse"]>;
export type WeightsRequest = Required<Schemas["WeightsRequest"]>;
export type Measure = WeightsRequest["measure"];
export type Edge = Schemas["HeadArrow"];
/** How far a request is; `says` is the sentence where done and total are not counts to show. */
export type Progress = Schemas["RequestProgress"] & { says?: string };
export type Models = Schemas["ModelList"];
export type AttributionRequest = Schemas["AttributionRequest"];
export type FoundToken = Schemas["TokenResponse"];
export type AttributionCard = Schemas["AttributionResponse"];
export type PredictRequest = Required<Schemas["PredictRequest"]>;
export type Prediction = Schemas["PredictResponse"];
export type Roles = Schemas["Roles"];
export type Finding = Schemas["Finding"];
export type RoleTrial = Schemas["RoleTrial"];
export type WhyRequest = Required<Schemas["WhyRequest"]>;
/** `stored`: computed when a published site was made, not in the visitor's browser. */
export type Why = Sent<Schemas["WhyResponse"]> & { stored?: boolean };
export type WriterShare = Sent<Schemas["Share"]>;
export type TraceRequest = Required<Schemas["TraceRequest"]>;
export type Trace = Sent<Schemas["TraceResponse"]>;
export type TraceStep = Trace["steps"][number];
export type TraceRead = Sent<Schemas["KeyRead"]>;
export type CutPathRequest = Required<Schemas["CutPathRequest"]>;
export type CutPath = Schemas["CutPathResponse"];
export type Lens = Schemas["LensResponse"];
export type PatchingRequest = Required<Schemas["PatchingRequest"]>;
export type Patching = Schemas["PatchingResponse"];
export type SourcesRequest = Schemas["SourcesRequest"];
export type Sources = Schemas["SourcesResponse"];
export type Carriers = Schemas["CarriersResponse"];
export type PaperClaim = Schemas["PaperClaim"];

export type PatchGrid = Schemas["PatchGrid"];

/** The pixels that a model has read, three bytes each, row by row. */
export interface Pixels {
  width: number;
  height: number;
  bytes: Uint8Array;
}

export interface Look extends LookCard {
  scores: Float32Array; // [question, head]
  thumbnails: Uint8Array; // [head, side, side], 255·√weight
  side: number;
  pixels: Pixels | null; // of a picture
  waveform: Float32Array | null; // of a sound: lowest and highest sample of each part
}

/** A picture or sound to look at, in base64, with the text beside it (or written by the decoder), if the model takes one. */
export interface MediaFile {
  name: string;
  data: string;
  text: string | null;
}

/** What is looked at: a text, a picture or sound, or a look that the program keeps. */
export type Wanted = { text: string } | { look: string } | { media: MediaFile };

/** How much of a head's attention each key receives, on average over the queries. */
export interface Received {
  look: string;
  head: string;
  sink: number; // the key that receives most
  received: Float32Array;
}

export interface Tile {
  // a rectangle of one head's pattern; each number stands for pool × pool weights
  look: string;
  head: string;
  rows: [number, number];
  columns: [number, number];
  pool: number;
  measure: Measure;
  weights: Float32Array;
  height: number;
  width: number;
}

export interface Attribution extends AttributionCard {
  weights: Float32Array; // [head, key]
  z: Float32Array; // [head, d_value]
  headOutputs: Float32Array; // [head, d_model], through W_O
  bias: Float32Array;
  output: Float32Array;
  logits: Float32Array; // direct effect of every head of the model on the logit
}

export interface Importance {
  look: string;
  read: number; // tokens it was measured on
  importance: Float32Array; // [head], how much the loss would rise without it, at first order
}

export interface Source {
  /** false in an exported file: what needs the model is switched off, and the page says so */
  readonly live: boolean;
  /** true in a published site, where the model runs in the browser and there is no program to ask */
  readonly published?: boolean;
  /** where a published site has its documentation */
  readonly docs?: string;
  /** the look that a notebook shows before anybody types */
  readonly first?: string;
  /** the models at hand, and a source for each; only a server has several */
  models?(): Promise<Models>;
  of?(model: string | null): Source;
  /** has the program open one more model, by its hub name or folder; its name here */
  openModel?(name: string): Promise<string>;
  model(signal?: AbortSignal): Promise<ModelCard>;
  look(wanted: Wanted, signal?: AbortSignal): Promise<Look>;
  weights(wanted: WeightsRequest, signal?: AbortSignal): Promise<Tile>;
  attribution(wanted: AttributionRequest, signal?: AbortSignal): Promise<Attribution>;
  /** the token that is meant by what somebody typed; a file has no tokenizer to ask */
  token?(wanted: { text: string }): Promise<FoundToken>;
  predict(wanted: PredictRequest, signal?: AbortSignal): Promise<Prediction>;
  /** why a head looks there; what cutting one path does; where a prediction comes from */
  why?(wanted: WhyRequest, signal?: AbortSignal): Promise<Why>;
  cutPath?(wanted: CutPathRequest, signal?: AbortSignal): Promise<CutPath>;
  trace?(wanted: TraceRequest, signal?: AbortSignal): Promise<Trace>;
  /** The command that traces this prediction, where that needs Python; else null. */
  traceCommand?(wanted: TraceRequest): Promise<string | null>;
  /** the likeliest token after every layer; which head or position carries what sets two texts apart */
  lens?(wanted: { look: string; position: number }, signal?: AbortSignal): Promise<Lens>;
  patching?(wanted: PatchingRequest, signal?: AbortSignal): Promise<Patching>;
  /** which document an answer came from, and the heads that carry one document */
  sources?(wanted: SourcesRequest): Promise<Sources>;
  carriers?(wanted: SourcesRequest & { document: number }): Promise<Carriers>;
  /** how far the program is with what it is doing; only a server can be asked while it works */
  progress?(): Promise<Progress>;
  /** a published site reads text alone, and has no sink of a picture to name */
  received?(wanted: { look: string; head: string }, signal?: AbortSignal): Promise<Received>;
  importance(wanted: { look: string }, signal?: AbortSignal): Promise<Importance>;
  roles(): Promise<Roles>;
  /** what papers say of this model's heads */
  featured(): Promise<PaperClaim[]>;
  /** puts every head to the test, which takes a while */
  testHeads(): Promise<Roles>;
}

/** A token sequence by name: the text, what the decoder has written, or another, as a picture's patches. */
export function tokensOf(look: Pick<LookCard, "tokens" | "written" | "streams">, which: string): TokenCard[] {
  return look.streams?.[which] ?? (which === "written" && look.written.length ? look.written : look.tokens);
}

/** The names of the token sequences that look, and are looked at: of most models there is one text. */
export function streamsOf(look: Pick<LookCard, "sides">, site: SiteCard): [string, string] {
  return look.sides?.[site.name] ?? [site.queries, site.keys];
}

/** What went wrong, for the person at the page, in its language where the catalogue has it. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
