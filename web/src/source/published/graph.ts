// The model in the browser: the published graph, run by onnxruntime's WebAssembly.
import * as ort from "onnxruntime-web/wasm";
import type { SiteCard } from "../source";

const NO_CUT = [-1n, 0n, 0n, 0n]; // a row that belongs to no site
const MOST_THREADS = 4;

/** Edits of heads: what each delivers, and the arrows that are knocked out. */
export interface HeadEdits {
  off: { site: number; head: number }[];
  how: "zero" | "mean";
  cuts: { site: number; head: number; query: number; key: number }[];
}

export type Outputs = Record<string, Float32Array>;

export class Graph {
  private constructor(
    private readonly session: ort.InferenceSession,
    private readonly sites: SiteCard[],
  ) {}

  static async open(wasm: ArrayBuffer, graph: ArrayBuffer, weights: ArrayBuffer, sites: SiteCard[]): Promise<Graph> {
    ort.env.wasm.wasmBinary = wasm;
    ort.env.wasm.numThreads = globalThis.crossOriginIsolated
      ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1)
      : 1;
    ort.env.logLevel = "error";
    const session = await ort.InferenceSession.create(new Uint8Array(graph), {
      executionProviders: ["wasm"],
      externalData: [{ path: "weights.bin", data: new Uint8Array(weights) }],
      logSeverityLevel: 3,
    });
    return new Graph(session, sites);
  }

  get outputs(): readonly string[] {
    return this.session.outputNames;
  }

  /** Read these tokens under these edits; only the outputs that are wanted leave the runtime's memory. */
  async run(ids: number[], edits: HeadEdits | undefined, wanted: readonly string[]): Promise<Outputs> {
    const made = await this.session.run(this.inputs(ids, edits), wanted);
    const found = Object.fromEntries(Object.entries(made).map(([name, each]) => [name, each.data as Float32Array]));
    return found;
  }

  private inputs(ids: number[], edits?: HeadEdits): Record<string, ort.Tensor> {
    const { sites } = this;
    const { Tensor } = ort;
    const widest = Math.max(...sites.map((site) => site.n_heads));
    const deepest = Math.max(...sites.map((site) => site.d_value));
    const gates = new Float32Array(sites.length * widest).fill(1);
    const means = new Float32Array(sites.length * widest);
    for (const { site, head } of edits?.off ?? []) {
      gates[site * widest + head] = 0;
      if (edits!.how === "mean") means[site * widest + head] = 1;
    }
    const arrows = distinct(edits?.cuts ?? []).map(({ site, head, query, key }) =>
      [site, head, query, key].map(BigInt),
    );
    const cuts = [NO_CUT, ...arrows];
    const by = [sites.length, widest];
    return {
      ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]),
      gates: new Tensor("float32", gates, by),
      means: new Tensor("float32", means, by),
      offsets: new Tensor("float32", new Float32Array(gates.length * deepest), [...by, deepest]),
      cuts: new Tensor("int64", BigInt64Array.from(cuts.flat()), [cuts.length, 4]),
    };
  }
}

/** Each arrow once: the graph takes away its weight as often as it is named. */
function distinct<Arrow extends object>(arrows: Arrow[]): Arrow[] {
  return [...new Map(arrows.map((arrow) => [JSON.stringify(arrow), arrow])).values()];
}
