// The model on the reader's graphics card: used where it computes there what it computes in WebAssembly.
import type * as Ort from "onnxruntime-web/wasm";
import { contentOf, unzipped, type Place, type PublishedModel } from "../files";
import { type Graph, type HeadEdits, type Outputs, type Runtime } from "../graph";
import type { ModelReader } from "../reader";

export interface WebGpuFiles {
  script: string;
  runtime: Place;
}

export interface Differences {
  probability: number;
  weight: number;
}

/** What came of trying it; in every state but the first the model runs on WebAssembly. */
export type Tried =
  | { state: "agrees" | "differs"; differences: Differences }
  | { state: "missing" | "no adapter" }
  | { state: "failed"; message: string };

type Runs = Pick<Graph, "run" | "outputs">;

const MOST = 1e-3; // of a probability and of an attention weight, as between a site and Python
const TEXT = "My white horse drank at the river. My white horse drank at the";
const COUNT = 10; // likeliest tokens that are compared

/** Whether this browser has a graphics card to offer. */
async function refused(): Promise<"missing" | "no adapter" | null> {
  const { gpu } = navigator as Navigator & { gpu?: { requestAdapter(): Promise<unknown> } };
  if (!gpu) return "missing";
  return (await gpu.requestAdapter()) ? null : "no adapter";
}

/** Its runtime, fetched now. One thread: what stays on the processor is little. */
async function fetched(files: WebGpuFiles, angles: string[]): Promise<Runtime> {
  const [ort, wasm] = await Promise.all([
    import(/* @vite-ignore */ files.script) as Promise<typeof Ort>,
    contentOf(files.runtime).then(unzipped),
  ]);
  ort.env.wasm.wasmBinary = wasm;
  ort.env.wasm.numThreads = 1;
  return { ort, provider: { name: "webgpu", forceCpuNodeNames: angles } };
}

/** The largest differences between two readers on a short text: of its next token, also without a head, and of weights. */
export async function compared(one: ModelReader, other: ModelReader, heads: string[]): Promise<Differences> {
  const [first, second] = [await shown(one, heads), await shown(other, heads)];
  const largest = (pairs: [number, number][]) =>
    pairs.reduce((most, [a, b]) => (Math.abs(a - b) <= most ? most : Math.abs(a - b)), 0); // NaN stays
  return {
    probability: largest([...first.probabilities].map(([id, chance]) => [chance, second.probabilities.get(id) ?? 0])),
    weight: largest(first.weights.map((weight, at) => [weight, second.weights[at]])),
  };
}

async function shown(reader: ModelReader, heads: string[]) {
  const { look, tokens } = await reader.look({ text: TEXT });
  const off = [heads[heads.length - 1]];
  const asked = { look, position: tokens.length - 1, off, cuts: [], sampling: null, count: COUNT };
  const { guesses, without } = await reader.predict({ ...asked, how: "zero" });
  const probabilities = new Map(guesses.map(({ id, probability }) => [`${id}`, probability]));
  guesses.forEach(({ id }, at) => probabilities.set(`${id} without`, without![at]));
  const whole: [number, number] = [0, tokens.length];
  const weights: number[] = [];
  for (const head of heads) {
    const tile = { look, head, rows: whole, columns: whole, pool: 1, aside: false };
    weights.push(...(await reader.weights({ ...tile, how: "max", measure: "weight" })).weights);
  }
  return { probabilities, weights };
}

/** A graph that goes back to another one for good when it fails, as it does where a card runs out of memory. */
function withFallback(fast: Runs, plain: Runs, tell: (tried: Tried) => void): Runs {
  let current = fast;
  return {
    outputs: plain.outputs,
    async run(ids: number[], edits: HeadEdits | undefined, wanted: readonly string[]): Promise<Outputs> {
      try {
        return await current.run(ids, edits, wanted);
      } catch (error) {
        if (current === plain) throw error;
        current = plain;
        tell({ state: "failed", message: (error as Error).message });
        return plain.run(ids, edits, wanted);
      }
    },
  };
}

/** A reader on the graphics card; null, and the reason is told, where there is none or it computes something else. */
export async function readerOnWebGpu(
  files: WebGpuFiles,
  card: PublishedModel,
  plain: { graph: Graph; reader: ModelReader },
  open: (runtime: Runtime) => Promise<Graph>,
  readerOf: (graph: Runs) => ModelReader,
  tell: (tried: Tried) => void,
): Promise<ModelReader | null> {
  try {
    const state = await refused();
    if (state) return (tell({ state }), null);
    const graph = await open(await fetched(files, card.angles));
    const heads = card.model.sites.flatMap((site) =>
      Array.from({ length: site.n_heads }, (_, head) => `${site.name}.${head}`),
    );
    const differences = await compared(plain.reader, readerOf(graph), heads);
    const agrees = differences.probability <= MOST && differences.weight <= MOST;
    tell({ state: agrees ? "agrees" : "differs", differences });
    return agrees ? readerOf(withFallback(graph, plain.graph, tell)) : null;
  } catch (error) {
    return (tell({ state: "failed", message: (error as Error).message ?? String(error) }), null);
  }
}
