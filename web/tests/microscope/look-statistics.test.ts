import { expect, test } from "vitest";
import type { Look, ModelCard } from "../../src/source/source";
import { headsIn, largestDifferences, reachedHead, similarHeads } from "../../src/microscope/state/look-statistics";

// three heads on two tokens: the second copies the first, the third rests on the first token
const byte = (weight: number) => Math.round(255 * Math.sqrt(weight));
const rows = (...heads: number[][]) => Uint8Array.from(heads.flat().map(byte));
const look = {
  side: 2,
  thumbnails: rows([1, 0, 0.2, 0.8], [1, 0, 0.5, 0.5], [1, 0, 1, 0]),
  scores: Float32Array.of(0.2, 0.5, 1, NaN, NaN, NaN),
} as unknown as Look;
const model = {
  questions: [
    { name: "first", unit: "share" },
    { name: "induction", unit: "share" },
    { name: "entropy", unit: "nats" },
  ],
  sites: [{ n_heads: 3 }],
} as unknown as ModelCard;

test("heads are alike by their patterns, and resting on the first token makes none", () => {
  expect(similarHeads(look, 0, 4)).toEqual([{ head: 1, cosine: expect.closeTo(1, 5) }]);
  expect(similarHeads(look, 2, 4)).toEqual([]);
});

test("two looks are as far apart as their most different answer", () => {
  const other = { ...look, scores: Float32Array.of(0.3, 0.1, 1, 0.9, NaN, NaN) } as Look;
  const found = largestDifferences(look, other, model);
  expect(Array.from(found)).toEqual([expect.closeTo(0.1, 5), expect.closeTo(0.4, 5), 0]);
});

test("a head that a look has not reached is left for the first that it has", () => {
  const text = { side: 2, thumbnails: rows([0, 0, 0, 0], [1, 0, 0.5, 0.5], [1, 0, 1, 0]) } as unknown as Look;
  expect(headsIn(text)).toBe(3);
  expect([0, 1, 2, -1].map((head) => reachedHead(text, head))).toEqual([1, 1, 2, -1]);
});
