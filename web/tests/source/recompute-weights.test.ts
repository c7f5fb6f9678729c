import { expect, test } from "vitest";
import { weightAt } from "../../src/draw/heat-map";
import { tileOf, partsFrom, type Parts } from "../../src/source/recompute-weights";
import type { WeightsRequest } from "../../src/source/source";
import { pack } from "../pack";

const [HEADS, KV, QUERIES, KEYS, WIDTH] = [4, 2, 11, 11, 3];

function numbers(count: number, seed: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, at) => 2 * Math.sin(seed + 1.7 * at));
}

function parts(softcap: number | null, window: number): Parts {
  const runs = Int32Array.from({ length: 2 * QUERIES }, (_, at) =>
    at % 2 ? (at + 1) / 2 : Math.max(0, at / 2 + 1 - window),
  );
  const q = { data: numbers(HEADS * QUERIES * WIDTH, 1), shape: [HEADS, QUERIES, WIDTH] };
  const k = { data: numbers(KV * KEYS * WIDTH, 2), shape: [KV, KEYS, WIDTH] };
  const logsumexp = { data: new Float32Array(HEADS * QUERIES), shape: [HEADS, QUERIES] };
  for (let head = 0; head < HEADS; head++)
    for (let row = 0; row < QUERIES; row++) {
      const scores = [];
      for (let key = runs[2 * row]; key < runs[2 * row + 1]; key++)
        scores.push(score(q.data, k.data, head, row, key, softcap));
      logsumexp.data[head * QUERIES + row] = Math.log(scores.reduce((sum, each) => sum + Math.exp(each), 0));
    }
  return partsFrom(pack({ scale: 0.5, softcap }, { q, k, logsumexp, runs: { data: runs, shape: [QUERIES, 2] } }));
}

function score(
  q: Float32Array,
  k: Float32Array,
  head: number,
  row: number,
  key: number,
  softcap: number | null,
): number {
  const kv = head >> 1; // two heads share each KV head
  const dot = [0, 1, 2].reduce(
    (sum, at) => sum + q[(head * QUERIES + row) * WIDTH + at] * k[(kv * KEYS + key) * WIDTH + at],
    0,
  );
  return softcap === null ? dot / 2 : softcap * Math.tanh(dot / 2 / softcap);
}

const asked = (rows: [number, number], columns: [number, number], pool = 1): WeightsRequest => ({
  look: "abc",
  head: "5.3",
  rows,
  columns,
  pool,
  how: "max",
  measure: "weight",
  aside: false,
});

test.each([
  [null, 11],
  [null, 4],
  [1.5, 11],
])("every row sums to one, and nothing lies outside what it sees (cap %s, window %s)", (softcap, window) => {
  for (let head = 0; head < HEADS; head++) {
    const tile = tileOf(parts(softcap, window), head, asked([0, QUERIES], [0, KEYS]));
    for (let row = 0; row < QUERIES; row++) {
      const line = tile.weights.subarray(row * KEYS, (row + 1) * KEYS);
      expect(line.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 5);
      line.forEach((weight, key) => expect(weight > 0).toBe(key <= row && row - key < window));
    }
  }
});

test("a part of a pattern is that part of the whole, cut at the end of the text", () => {
  const whole = tileOf(parts(null, 11), 3, asked([0, QUERIES], [0, KEYS]));
  const some = tileOf(parts(null, 11), 3, asked([4, 9], [2, 2 ** 31]));
  expect([some.height, some.width, some.columns]).toEqual([5, 9, [2, 11]]);
  for (let row = 4; row < 9; row++)
    for (let key = 2; key < KEYS; key++) expect(weightAt(some, row, key)).toBe(weightAt(whole, row, key));
});

test("a pooled number is the largest of the weights that it stands for", () => {
  const whole = tileOf(parts(null, 11), 2, asked([0, QUERIES], [0, KEYS]));
  const small = tileOf(parts(null, 11), 2, asked([0, QUERIES], [0, KEYS], 4));
  expect([small.height, small.width]).toEqual([3, 3]);
  const largest = new Map<number, number>();
  for (let row = 0; row < QUERIES; row++)
    for (let key = 0; key < KEYS; key++) {
      const shown = weightAt(small, row, key);
      const weight = weightAt(whole, row, key);
      expect(weight).toBeLessThanOrEqual(shown);
      largest.set(shown, Math.max(largest.get(shown) ?? 0, weight));
    }
  for (const [shown, weight] of largest) expect(weight).toBe(shown);
});
