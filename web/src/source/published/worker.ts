// Runs a published model beside the page: fetches its files, says how far it is, and answers one request at a time.
import { unpack } from "../../wire";
import { contentOf, keptFiles, keptName, unzipped, type MODEL_FILES, type Place, type PublishedModel } from "./files";
import { Graph } from "./graph";
import { ModelReader } from "./reader";
import { Tokens } from "./tokenizer";

export interface OpenRequest {
  runtime: Place;
  files: Record<(typeof MODEL_FILES)[number], Place>;
  bytes: number;
  model: string; // under which its files are kept for the next visit
  version: string; // of these files
}

let reader: Promise<ModelReader> | null = null;
let turn: Promise<unknown> = Promise.resolve();

async function open({ runtime, files, bytes, model, version }: OpenRequest): Promise<ModelReader> {
  const came = new Map<Place, number>();
  const cache = await keptFiles(model);
  const old = await cache?.keys();
  for (const each of old ?? []) if (!each.url.endsWith(keptName("", version))) void cache!.delete(each);
  async function file(place: Place): Promise<ArrayBuffer> {
    if (!cache || typeof place !== "string") return fetched(place);
    const kept = await cache.match(keptName(place, version));
    if (kept) return kept.arrayBuffer();
    const content = await fetched(place);
    cache.put(keptName(place, version), new Response(content)).catch(() => undefined); // no room: fetched every time
    return content;
  }
  const fetched = (place: Place) =>
    contentOf(place, (count) => {
      came.set(place, count);
      const done = [...came.values()].reduce((sum, each) => sum + each, 0);
      postMessage({ progress: { what: "fetching the model", done, total: Math.max(bytes, done) } });
    });
  const json = async (place: Place) => JSON.parse(new TextDecoder().decode(await file(place)));
  const [wasm, graph, weights, packed, tokenizer, config] = await Promise.all([
    file(runtime).then(unzipped),
    file(files["graph.onnx"]),
    file(files["weights.bin"]),
    file(files["model.bin"]),
    json(files["tokenizer.json"]),
    json(files["tokenizer_config.json"]),
  ]);
  const { values, arrays } = unpack(packed);
  const card = values as PublishedModel;
  postMessage({ progress: { what: "starting the model", done: bytes, total: bytes } });
  const numbers = Object.fromEntries(Object.entries(arrays).map(([name, each]) => [name, each.data as Float32Array]));
  const tokens = new Tokens(tokenizer, config, card.texts);
  const opened = await Graph.open(wasm, graph, weights, card.model.sites);
  return new ModelReader(opened, tokens, { file: weights, card, arrays: numbers });
}

type Ask = "look" | "weights" | "attribution" | "predict" | "token" | "why";

async function answer(ask: Ask | "open", body: unknown): Promise<unknown> {
  if (ask === "open") {
    reader ??= open(body as OpenRequest);
    await reader;
    return true;
  }
  const model = await reader!;
  return (model[ask] as (wanted: unknown) => unknown)(body);
}

function listen({ data: { id, ask, body } }: MessageEvent<{ id: number; ask: Ask; body: unknown }>): void {
  turn = turn.then(async () => {
    try {
      postMessage({ id, value: await answer(ask, body) });
    } catch (error) {
      const { kind, message } = error as { kind?: string; message?: string };
      postMessage({ id, problem: { kind: kind ?? "Failed", message: message ?? String(error) } });
    }
  });
}

// The runtime starts its threads from this same script, by a name of its own, and listens there itself.
if (!self.name.startsWith("em-pthread")) onmessage = listen;
