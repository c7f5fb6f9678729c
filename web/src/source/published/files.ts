// What a published site holds of a model; src/headscope/app/publish/ writes it.
import type { AttributionCard, ModelCard, PaperClaim, Roles } from "../source";

/** A matrix in the file of weights. */
export interface WeightTable {
  offset: number; // bytes
  shape: number[];
  dtype: "float16" | "float32";
  transposed: boolean;
}

export interface PublishedModel {
  model: ModelCard;
  roles: Roles;
  featured: PaperClaim[];
  explained: Record<string, string>; // text → file of its trace and the reasons of heads
  looks: Record<string, string>; // text → file of its look, which needs no model
  longest: number; // tokens that are read here
  texts: string[]; // of every token of the vocabulary
  scores: Record<string, { scale: number; softcap: number | null }>; // by site
  tables: Record<string, WeightTable>;
  attribution: {
    kinds: Record<string, AttributionCard["kind"]>; // what the parts of a site's heads add up to
    scales: Record<string, number>; // on a site's way to the final norm
    why_not: string;
    note: string;
    centred: boolean;
  };
  split: { why_not: string; rotary: "none" | "half"; centred: boolean }; // of scores, over what wrote into the stream
  hash: string;
  dtype: string;
  verified: string;
}

export interface ModelEntry {
  name: string;
  title: string;
  folder: string; // "" where the model itself is not in the site
  why_not: string;
  licence: string;
  source: string;
  bytes: number;
}

export interface PublishedSite {
  title: string;
  text: string;
  docs: string; // an address, or ""
  version: string;
  command: string;
  models: ModelEntry[];
  looks: { name: string; file: string; text: string }[];
  runtime: string;
  answers: Record<string, string>; // request → file
  groups: Record<string, string>; // beginning of requests → file with the answer to each
  marks: string;
}

/** What a model's folder holds for the worker that runs it. */
export const MODEL_FILES = [
  "graph.onnx",
  "weights.bin",
  "model.bin",
  "tokenizer.json",
  "tokenizer_config.json",
] as const;

/** A file by its address, or its content. */
export type Place = string | Blob;

/** The error of a file that does not come; the page has the sentence for it. */
const offline = () => Promise.reject(Object.assign(new Error("offline"), { kind: "Offline" }));

/** The bytes of a file; `told` hears how many have come. */
export async function contentOf(place: Place, told: (bytes: number) => void): Promise<ArrayBuffer> {
  if (typeof place !== "string") return place.arrayBuffer();
  const response = await fetch(place).catch(offline);
  if (!response.ok) throw new Error(`${place} is missing from this site (${response.status}).`);
  const parts: BlobPart[] = [];
  let bytes = 0;
  for (const reader = response.body!.getReader(); ;) {
    const { done, value } = await reader.read().catch(offline);
    if (done) return new Blob(parts).arrayBuffer();
    parts.push(value as BlobPart);
    told((bytes += value.length));
  }
}

/** Where a browser keeps a model's files between visits, and the file of each name there; null where it cannot. */
export async function keptFiles(model: string): Promise<Cache | null> {
  return globalThis.caches?.open(`headscope ${model}`).catch(() => null) ?? null;
}

export const keptName = (place: string, version: string): string => `${place}?${version}`;

export function unzipped(bytes: ArrayBuffer): Promise<ArrayBuffer> {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
