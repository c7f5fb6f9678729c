import { describe, expect, it } from "vitest";
import { sentenceKeys } from "./start-cases";
import {
  ANIMAL,
  answered,
  BEGINNING,
  moved,
  offersSecond,
  printed,
  TIRED,
  TWO,
  voiceOf,
  withShare,
} from "../src/start/shares";

describe("the shares of Start", () => {
  it("add up to 1 when one is moved, the others in proportion", () => {
    const shares = withShare([0.14, 0.62, 0.1, 0.14], ANIMAL, 0.57);
    expect(shares.reduce((sum, each) => sum + each)).toBeCloseTo(1);
    expect(shares[1] / shares[2]).toBeCloseTo(6.2);
    expect(withShare([1, 0, 0, 0], 0, 0.4)).toEqual([0.4, 0.2, 0.2, 0.2].map((each) => expect.closeTo(each)));
    expect(withShare([0.2, 0.3, 0.5], 0, 7)[0]).toBe(1);
  });

  it("are printed so that they add up to 1.00", () => {
    for (const shares of [[1 / 3, 1 / 3, 1 / 3, 0], [0.005, 0.005, 0.005, 0.985], BEGINNING.heads[0]])
      expect(printed(shares).reduce((sum, each) => sum + Math.round(each * 100), 0)).toBe(100);
  });

  it("answer both questions with two heads only", () => {
    for (let animal = 0; animal <= 1; animal += 0.05)
      for (let tired = 0; tired <= 1 - animal; tired += 0.05) {
        const rest = (1 - animal - tired) / 2;
        const { who, how } = answered({ ...BEGINNING, heads: [[animal, rest, rest, tired]] });
        expect(who && how).toBe(false);
      }
    expect(answered({ ...BEGINNING, heads: [TWO[0], [0.1, 0.1, 0.1, 0.7]] })).toEqual({ who: true, how: true });
  });

  it.each(sentenceKeys)("%s", (_, heads, key) => {
    const progress = heads.reduce((before, shares) => moved(before, [shares]), BEGINNING);
    expect(voiceOf(progress).key).toBe(key);
  });

  it("offer a second head after the blend, also to who drags past it", () => {
    const found = moved(BEGINNING, [[0.7, 0.1, 0.1, 0.1]]);
    expect(offersSecond(found)).toBe(false);
    expect(offersSecond(moved(found, [[0.45, 0.05, 0.05, 0.45]]))).toBe(true);
    expect(offersSecond(moved(found, [withShare(found.heads[0], TIRED, 0.9)]))).toBe(true);
  });
});
