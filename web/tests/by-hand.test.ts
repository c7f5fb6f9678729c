import { describe, expect, it } from "vitest";
import { arrowBetween, BOX, boxCentres, toggled } from "../src/by-hand/diagram";
import { shortNumber, withWeight, normalised, total, parseNumber } from "../src/by-hand/scorecard";

const card = { animal: 0.7, road: 0.05, because: 0.1, was: 0.05, tired: 0.1 };

describe("shares", () => {
  it("make room for a dragged one, in their proportions", () => {
    const moved = withWeight(card, "animal", 0.4);
    expect(moved).toEqual({ animal: 0.4, road: 0.1, because: 0.2, was: 0.1, tired: 0.2 });
  });
  it("add up to 1 wherever one is dragged", () => {
    for (const word of Object.keys(card))
      for (let at = 0; at <= 1; at += 0.01) expect(total(withWeight(card, word, at))).toBe(1);
  });
  it("are dealt out evenly when one held everything", () => {
    expect(withWeight({ a: 1, b: 0, c: 0 }, "a", 0.5)).toEqual({ a: 0.5, b: 0.25, c: 0.25 });
  });
  it("that were typed can be brought to 1", () => {
    expect(total(normalised({ ...card, animal: 2 }))).toBe(1);
    expect(total(normalised({ a: 0, b: 0, c: 0 }))).toBe(1);
    expect(normalised({ a: 1, b: 1 })).toEqual({ a: 0.5, b: 0.5 });
  });
});

describe("numbers by hand", () => {
  it("are written as the lab writes them", () => {
    const pairs: [number, string][] = [
      [0.62, ".62"],
      [0.085, ".085"],
      [-0.5, "−.5"],
      [3, "3"],
      [0, "0"],
      [-0.0001, "0"],
      [10, "10"],
      [1.5, "1.5"],
    ];
    for (const [value, text] of pairs) expect(shortNumber(value)).toBe(text);
  });
  it("are read in the ways people type them", () => {
    expect(["0.5", ".5", "0,5", "−.5", " 3 ", "3."].map(parseNumber)).toEqual([0.5, 0.5, 0.5, -0.5, 3, 3]);
    expect(["", "half", "1e5", "--1"].map(parseNumber)).toEqual([null, null, null, null]);
  });
});

describe("the fork", () => {
  it("keeps every box on the paper, at any width", () => {
    for (const width of [328, 600, 900])
      for (const order of [true, false])
        for (const { x, y } of boxCentres(width, 330, order)) {
          expect(x - BOX.width / 2).toBeGreaterThanOrEqual(0);
          expect(x + BOX.width / 2).toBeLessThanOrEqual(width);
          expect(y + BOX.height / 2).toBeLessThanOrEqual(330);
        }
  });
  it("draws an arrow from edge to edge", () => {
    expect(arrowBetween({ x: 0, y: 0 }, { x: 200, y: 0 })).toEqual({ x1: 52, y1: 0, x2: 144, y2: 0 });
  });
  it("takes an arrow away when it is drawn again", () => {
    const once = toggled([], "input", "head 1");
    expect(once).toEqual([["input", "head 1"]]);
    expect(toggled(once, "input", "head 1")).toEqual([]);
    expect(toggled(once, "head 1", "input")).toHaveLength(2);
  });
});
