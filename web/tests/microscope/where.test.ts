import { expect, test } from "vitest";
import lines from "./where.jsonl?raw";
import { divide } from "../../src/microscope/head/where";
import type { Tile, TokenCard } from "../../src/source/source";

// Written by `python -m tests.heads.questions.test_where`, which counts the shares by hand.
interface Case {
  tokens: TokenCard[];
  causal: boolean;
  weights: number[];
  shares: Record<string, [share: number, alone: number, byDistance: number]>;
}
const cases = lines
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Case);

test("the page divides a head's attention as Python does", () => {
  expect(cases.map(({ causal }) => causal)).toEqual([true, true, false]);
  for (const { tokens, causal, weights, shares } of cases) {
    const size = { height: tokens.length, width: tokens.length };
    const found = divide(tokens, causal, { ...size, weights: Float32Array.from(weights) } as Tile);
    expect(found.map(({ name }) => name)).toEqual(Object.keys(shares));
    for (const { name, share, alone, blind } of found) {
      expect(share).toBeCloseTo(shares[name][0], 3);
      if (!name.startsWith("elsewhere")) expect(alone).toBeCloseTo(shares[name][1], 3);
      expect(blind).toBeCloseTo(shares[name][2], 3);
    }
  }
});
