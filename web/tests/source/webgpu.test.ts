import { afterEach, describe, expect, it, vi } from "vitest";
import type { PublishedModel } from "../../src/source/published/files";
import type { Graph } from "../../src/source/published/graph";
import type { ModelReader } from "../../src/source/published/reader";
import { compared, readerOnWebGpu, type Tried } from "../../src/source/published/webgpu/on-webgpu";

/** What a reader answers whose every weight and probabilities are these. */
function answering(weight: number, guesses: [number, number][], without: number[]): ModelReader {
  return {
    look: async () => ({ look: "a", tokens: [{}, {}] }),
    predict: async () => ({ guesses: guesses.map(([id, probability]) => ({ id, probability })), without }),
    weights: async () => ({ weights: Float32Array.from([weight, weight]) }),
  } as unknown as ModelReader;
}

describe("WebGPU beside WebAssembly", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("takes the largest difference of a probability, with and without a head, and of a weight", async () => {
    const one = answering(0.5, [[3, 0.25], [4, 0.125]], [0.5, 0.25]); // prettier-ignore
    const other = answering(0.625, [[4, 0.25], [3, 0.25]], [0.25, 1]); // prettier-ignore
    expect(await compared(one, other, ["0.0"])).toEqual({ probability: 0.5, weight: 0.125 });
    expect((await compared(one, answering(NaN, [[3, 0.25], [4, 0.125]], [0.5, 0.25]), ["0.0"])).weight).toBeNaN(); // prettier-ignore
  });

  const card = { angles: [], model: { sites: [{ name: "0", n_heads: 1 }] } } as unknown as PublishedModel;
  const tried = async () => {
    const told: Tried[] = [];
    const plain = { graph: {} as Graph, reader: answering(0, [], []) };
    const open = async () => ({}) as Graph;
    const files = { script: "data:text/javascript,throw new Error('broken')", runtime: new Blob() };
    const found = await readerOnWebGpu(files, card, plain, open, () => plain.reader, (each) => told.push(each)); // prettier-ignore
    return { found, told };
  };

  it("says why it is not used: not offered, no adapter, or an error", async () => {
    vi.stubGlobal("navigator", {});
    expect(await tried()).toEqual({ found: null, told: [{ state: "missing" }] });
    vi.stubGlobal("navigator", { gpu: { requestAdapter: async () => null } });
    expect(await tried()).toEqual({ found: null, told: [{ state: "no adapter" }] });
    vi.stubGlobal("navigator", { gpu: { requestAdapter: async () => ({}) } });
    expect(await tried()).toMatchObject({ found: null, told: [{ state: "failed" }] });
  });

  it("goes back to WebAssembly for good when a text fails there", async () => {
    vi.stubGlobal("navigator", { gpu: { requestAdapter: async () => ({}) } });
    const told: Tried[] = [];
    const reader = answering(0.5, [[3, 0.25]], [0.5]);
    const runs = { fast: 0, plain: 0 };
    const plain = { outputs: [], run: async () => (runs.plain++, {}) } as unknown as Graph;
    const fast = { outputs: [], run: async () => { runs.fast++; throw new Error("too large"); } } as unknown as Graph; // prettier-ignore
    const zipped = await new Response(new Blob([]).stream().pipeThrough(new CompressionStream("gzip"))).blob();
    const files = { script: "data:text/javascript,export const env = { wasm: {} }", runtime: zipped };
    const given: Pick<Graph, "run">[] = [];
    await readerOnWebGpu(files, card, { graph: plain, reader }, async () => fast, (each) => (given.push(each), reader), (each) => told.push(each)); // prettier-ignore
    expect(told[0].state).toBe("agrees");
    const used = given[given.length - 1];
    await used.run([1], undefined, []);
    await used.run([1], undefined, []);
    expect(told[1]).toEqual({ state: "failed", message: "too large" });
    expect(runs).toEqual({ fast: 1, plain: 2 });
  });
});
