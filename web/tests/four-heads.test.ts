import { describe, expect, it } from "vitest";
import { BEGINNING, four, moved, painted, places, read, spelled, write, type Arrow, type Wish } from "../src/four-heads/wishes";

const words = "The tired horse crossed the road".split(" ");
const wish = (arrows: Arrow[], name = "a"): Wish => ({ name, asks: "", arrows });

describe("painting", () => {
  it("sets and takes away, and keeps the rows in order", () => {
    const once = painted([[5, 2]], 3, 2, true);
    expect(once).toEqual([[3, 2], [5, 2]]);
    expect(painted(once, 5, 2, false)).toEqual([[3, 2]]);
  });
  it("does not let a causal head look ahead", () => {
    expect(painted([], 1, 4, true)).toEqual([]);
  });
});

describe("another sentence", () => {
  it("keeps words that both begin and end with", () => {
    expect(places(["a", "b", "c"], ["a", "x", "y", "c"])).toEqual([0, null, 3]);
  });
  it("keeps arrows between words that stay, and those whose word was changed one for one", () => {
    const after = "The tired donkey crossed the road".split(" ");
    expect(moved([wish([[3, 2]])], words, after)[0].arrows).toEqual([[3, 2]]);
    const longer = "The very tired horse crossed the road".split(" ");
    expect(moved([wish([[3, 2], [2, 0]])], words, longer)[0].arrows).toEqual([[4, 3], [3, 0]]);
  });
  it("drops arrows that lost a word", () => {
    expect(moved([wish([[3, 1]])], words, "The horse crossed the road".split(" "))[0].arrows).toEqual([]);
  });
  it("lets previous token stay what it says", () => {
    expect(moved([wish([[1, 0], [2, 1]])], ["a", "b", "c"], ["x", "y", "z", "w"])[0].arrows).toEqual([[1, 0], [2, 1], [3, 2]]);
  });
  it("always has four heads", () => {
    expect(four([wish([])]).map((each) => each.name)).toEqual(["a", "Head 2", "Head 3", "Head 4"]);
  });
});

describe("arrows in words", () => {
  it("names places only where a word stands twice", () => {
    expect(spelled([[2, 0], [3, 1]], ["the", "cat", "saw", "the"])).toBe("saw > the@0, the@3 > cat");
  });
});

describe("the address", () => {
  it("is short at the beginning", () => {
    expect(write(BEGINNING)).toBe("#four-heads?v=1");
  });
  it("restores what it wrote", () => {
    const state = { sentence: "a | strange & sentence", wishes: [wish([[2, 1], [1, 0]], "Who?")], dHead: 2, steps: 30, places: false, word: 3 };
    expect(read(write(state))).toEqual(state);
  });
  it("reads nonsense as the beginning", () => {
    expect(read("#four-heads?d=x&w=-1&h=a")).toEqual({ ...BEGINNING, word: 0 });
  });
});
