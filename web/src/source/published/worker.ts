// Runs a published model beside the page: fetches its files, says how far it is, and answers one request at a time.
import { unpack } from "../../wire";
import { fetchBytes, unzipped, type PublishedModel } from "./files";
import { Graph } from "./graph";
import { ModelReader } from "./reader";
import { Tokens } from "./tokenizer";

export interface OpenRequest {
  runtime: string; // addresses
  folder: string;
  bytes: number;
}

let reader: Promise<ModelReader> | null = null;
let turn: Promise<unknown> = Promise.resolve();

async function open({ runtime, folder, bytes }: OpenRequest): Promise<ModelReader> {
  const came: Record<string, number> = {};
  const file = (path: string) =>
    fetchBytes(path, (count) => {
      came[path] = count;
      const done = Object.values(came).reduce((sum, each) => sum + each, 0);
      postMessage({ progress: { what: "fetching the model", done, total: Math.max(bytes, done) } });
    });
  const json = async (path: string) => JSON.parse(new TextDecoder().decode(await file(path)));
  const [wasm, graph, weights, packed, tokenizer, config] = await Promise.all([
    file(runtime).then(unzipped),
    file(`${folder}graph.onnx`),
    file(`${folder}weights.bin`),
    file(`${folder}model.bin`),
    json(`${folder}tokenizer.json`),
    json(`${folder}tokenizer_config.json`),
  ]);
  const { values, arrays } = unpack(packed);
  const card = values as PublishedModel;
  postMessage({ progress: { what: "starting the model", done: bytes, total: bytes } });
  const session = await Graph.open(wasm, graph, weights, card.model.sites);
  const numbers = Object.fromEntries(Object.entries(arrays).map(([name, each]) => [name, each.data as Float32Array]));
  return new ModelReader(session, new Tokens(tokenizer, config, card.texts), { file: weights, card, arrays: numbers });
}

type Ask = "look" | "weights" | "attribution" | "predict" | "token";

async function answer(ask: Ask | "open", body: unknown): Promise<unknown> {
  if (ask === "open") {
    reader ??= open(body as OpenRequest);
    await reader;
    return true;
  }
  const model = await reader!;
  return (model[ask] as (wanted: unknown) => unknown)(body);
}

onmessage = ({ data: { id, ask, body } }: MessageEvent<{ id: number; ask: Ask; body: unknown }>) => {
  turn = turn.then(async () => {
    try {
      postMessage({ id, value: await answer(ask, body) });
    } catch (error) {
      const { kind, message } = error as { kind?: string; message?: string };
      postMessage({ id, problem: { kind: kind ?? "Failed", message: message ?? String(error) } });
    }
  });
};
