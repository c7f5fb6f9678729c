import { describe, expect, it } from "vitest";
import { cellsOf, withCell, withWeight, weightOf, writtenTarget } from "../src/four-heads/target-weights";
import {
  INITIAL,
  padToFour,
  moveTargets,
  alignWords,
  readAddress,
  arrowText,
  writeAddress,
  type Arrow,
  type Target,
} from "../src/four-heads/targets";

const words = "The tired horse crossed the road".split(" ");
const target = (arrows: Arrow[], name = "a"): Target => ({ name, asks: "", arrows, shares: [] });
const rows = (each: Target) =>
  [...new Set(each.arrows.map(([from]) => from))].map((from) =>
    cellsOf(each).reduce((sum, cell) => sum + (cell.from === from ? cell.share : 0), 0),
  );

describe("painting", () => {
  it("sets and takes away, and keeps the rows in order", () => {
    const once = withCell(target([[5, 2]]), 3, 2, true);
    expect(once.arrows).toEqual([
      [3, 2],
      [5, 2],
    ]);
    expect(withCell(once, 5, 2, false).arrows).toEqual([[3, 2]]);
  });
  it("does not let a causal head look ahead", () => {
    expect(withCell(target([]), 1, 4, true).arrows).toEqual([]);
    expect(withWeight(target([]), 1, 4, 0.5).arrows).toEqual([]);
  });
  it("shares a row equally, and says nothing of shares, until somebody wants them otherwise", () => {
    const three = withCell(
      target([
        [5, 1],
        [5, 2],
      ]),
      5,
      3,
      true,
    );
    expect(three.shares).toEqual([]);
    expect(weightOf(three, 5, 3)).toBeCloseTo(1 / 3);
    expect(weightOf(three, 5, 4)).toBe(0);
  });
});

describe("shares", () => {
  const two = withWeight(
    target([
      [3, 2],
      [5, 1],
      [5, 2],
    ]),
    5,
    2,
    0.8,
  );
  it("give the rest of a row to the others, and leave other rows alone", () => {
    expect(two.shares).toEqual([1, 0.2, 0.8]);
    const three = withWeight(withCell(two, 5, 4, true), 5, 4, 0.5);
    expect([1, 2, 4].map((to) => weightOf(three, 5, to))).toEqual([0.1, 0.4, 0.5]);
  });
  it("of a lone cell leave the rest to the first word, and the first word's own is all", () => {
    const lone = withWeight(target([[5, 2]]), 5, 2, 0.7);
    expect(lone.arrows).toEqual([
      [5, 0],
      [5, 2],
    ]);
    expect(lone.shares).toEqual([0.3, 0.7]);
    expect(withWeight(target([[5, 0]]), 5, 0, 0.4)).toEqual(target([[5, 0]]));
  });
  it("paint a cell that was empty, drop one that has nothing, and go away when a row is equal again", () => {
    expect(withWeight(target([[5, 2]]), 5, 1, 0.25).shares).toEqual([0.25, 0.75]);
    expect(withWeight(two, 5, 2, 1)).toEqual(
      target([
        [3, 2],
        [5, 2],
      ]),
    );
    expect(withWeight(two, 5, 2, 0)).toEqual(
      target([
        [3, 2],
        [5, 1],
      ]),
    );
    expect(withWeight(two, 5, 2, 0.5)).toEqual(
      target([
        [3, 2],
        [5, 1],
        [5, 2],
      ]),
    );
  });
  it("always add up to one, whatever is done", () => {
    let each = target([[5, 1]]);
    for (const [to, share] of [
      [2, 0.35],
      [4, 0.9],
      [1, 0.05],
      [3, 0.333],
      [2, 2],
      [0, -1],
      [5, 0.61],
    ]) {
      each = withCell(withWeight(each, 5, to, share), 4, to % 4, true);
      for (const total of rows(each)) expect(total).toBeCloseTo(1, 3);
    }
  });
  it("make room for a new cell as an equal among them, and fill its place when it goes", () => {
    const more = withCell(two, 5, 4, true);
    expect(weightOf(more, 5, 4)).toBeCloseTo(1 / 3, 3);
    expect(withCell(more, 5, 4, false).shares).toEqual(two.shares);
  });
  it("that were written are kept if their rows add up, and else left to be refused", () => {
    expect(
      writtenTarget(
        target([]),
        [
          [5, 1],
          [5, 2],
        ],
        [0.5, 0.5],
      ),
    ).toEqual(
      target([
        [5, 1],
        [5, 2],
      ]),
    );
    expect(
      writtenTarget(
        target([]),
        [
          [5, 1],
          [5, 2],
        ],
        [0.8, 0.4],
      ).shares,
    ).toEqual([0.8, 0.4]);
  });
});

describe("another sentence", () => {
  it("keeps words that both begin and end with", () => {
    expect(alignWords(["a", "b", "c"], ["a", "x", "y", "c"])).toEqual([0, null, 3]);
  });
  it("keeps arrows between words that stay, and those whose word was changed one for one", () => {
    const after = "The tired donkey crossed the road".split(" ");
    expect(moveTargets([target([[3, 2]])], words, after)[0].arrows).toEqual([[3, 2]]);
    const longer = "The very tired horse crossed the road".split(" ");
    expect(
      moveTargets(
        [
          target([
            [3, 2],
            [2, 0],
          ]),
        ],
        words,
        longer,
      )[0].arrows,
    ).toEqual([
      [3, 0],
      [4, 3],
    ]);
  });
  it("drops arrows that lost a word", () => {
    expect(moveTargets([target([[3, 1]])], words, "The horse crossed the road".split(" "))[0].arrows).toEqual([]);
  });
  it("gives the share of a word that went to those that stay", () => {
    const before = {
      ...target([
        [5, 1],
        [5, 2],
        [5, 3],
      ]),
      shares: [0.2, 0.2, 0.6],
    };
    const [after] = moveTargets([before], words, "The horse crossed the road".split(" "));
    expect(after.arrows).toEqual([
      [4, 1],
      [4, 2],
    ]);
    expect(after.shares).toEqual([0.25, 0.75]);
  });
  it("lets previous token stay what it says", () => {
    expect(
      moveTargets(
        [
          target([
            [1, 0],
            [2, 1],
          ]),
        ],
        ["a", "b", "c"],
        ["x", "y", "z", "w"],
      )[0].arrows,
    ).toEqual([
      [1, 0],
      [2, 1],
      [3, 2],
    ]);
  });
  it("always has four heads", () => {
    expect(padToFour([target([])]).map((each) => each.name)).toEqual(["a", "Head 2", "Head 3", "Head 4"]);
  });
});

describe("arrows in words", () => {
  it("names places only where a word stands twice", () => {
    expect(
      arrowText(
        target([
          [2, 0],
          [3, 1],
        ]),
        ["the", "cat", "saw", "the"],
      ),
    ).toBe("saw > the@0, the@3 > cat");
  });
  it("carry their shares where these are not equal", () => {
    expect(
      arrowText(
        {
          ...target([
            [5, 1],
            [5, 2],
          ]),
          shares: [0.2, 0.8],
        },
        words,
      ),
    ).toBe("road > tired 0.2, road > horse 0.8");
  });
});

describe("the address", () => {
  it("is short at the beginning", () => {
    expect(writeAddress(INITIAL)).toBe("#four-heads?v=1");
  });
  it("restores what it wrote", () => {
    const state = {
      sentence: "a | strange & sentence",
      targets: [
        target(
          [
            [2, 1],
            [1, 0],
          ],
          "Who?",
        ),
      ],
      dHead: 2,
      steps: 30,
      places: false,
      word: 3,
    };
    expect(readAddress(writeAddress(state))).toEqual({
      ...state,
      targets: [
        target(
          [
            [1, 0],
            [2, 1],
          ],
          "Who?",
        ),
      ],
    });
    const uneven = {
      ...state,
      targets: [
        {
          ...target([
            [2, 0],
            [2, 1],
          ]),
          shares: [0.15, 0.85],
        },
      ],
    };
    expect(readAddress(writeAddress(uneven))).toEqual(uneven);
  });
  it("reads nonsense as the beginning", () => {
    expect(readAddress("#four-heads?d=x&w=-1&h=a")).toEqual({ ...INITIAL, word: 0 });
  });
});
