// What the page computes itself is what Python and PyTorch compute (tests/app/publish/lab_answers.py).
import { expect, test } from "vitest";
import { AttentionLayer, type Weights } from "../../src/four-heads/attention-layer";
import { craftHeads, jobOf, lossOf, type Asked, type Finished, type Snapshot } from "../../src/four-heads/craft-heads";
import { means, readings } from "../../src/learn/typed-numbers";
import python from "./lab-answers.json";

/** Equal, but numbers to a tolerance. */
function close(found: unknown, wanted: unknown, tolerance: number): void {
  if (typeof wanted === "number") return expect(Math.abs((found as number) - wanted)).toBeLessThan(tolerance);
  if (wanted === null || typeof wanted !== "object") return expect(found).toBe(wanted);
  const [ours, theirs] = [found, wanted] as Record<string, unknown>[];
  expect(Object.keys(ours)).toEqual(Object.keys(theirs));
  for (const key of Object.keys(theirs)) close(ours[key], theirs[key], tolerance);
}

test("typed numbers mean what they mean in Python", () => {
  for (const [text, all, same] of python.typed as [string, number[], boolean | null][]) {
    expect(readings(text)).toEqual(all);
    expect(means(text, ".3")).toBe(same);
  }
});

test("heads learn as PyTorch's do from the same weights", () => {
  const { targets, words, sizes, x, weights, losses, patterns } = python.training;
  const job = jobOf({ words, targets: targets as never });
  const own = Object.fromEntries(Object.entries(weights).map(([name, each]) => [name, Float64Array.from(each)]));
  const layer = new AttentionLayer(sizes, Float64Array.from(x), own as Weights);
  for (const wanted of losses) {
    const now = layer.patterns();
    close(lossOf(now, job), wanted, 1e-5);
    if (wanted !== losses.at(-1)) layer.learn(now, job.all);
  }
  close([...layer.patterns()], patterns, 1e-5);
});

const target = (name: string, arrows: [number, number][], shares: number[] = []) => ({
  name,
  asks: "",
  arrows,
  shares,
});

function crafted(asked: Partial<Asked>): { snapshots: Snapshot[]; done: Finished } {
  const told = [
    ...craftHeads({ words: ["it", "was", "it", "was"], targets: [], dHead: 8, steps: 10, places: true, ...asked }),
  ];
  const done = told.at(-1)!;
  if (!("done" in done)) throw new Error("the last message is not the end");
  return { snapshots: told.flatMap((each) => ("snapshot" in each ? [each.snapshot] : [])), done: done.done };
}

test("training tells of itself, and says what it misses and why", () => {
  const targets = [target("before", [[1, 0], [2, 1]]), target("impossible", [[3, 0], [3, 2]], [1, 0])]; // prettier-ignore
  const { snapshots, done } = crafted({ targets, places: false });
  expect(done.misses[1][0].why).toContain("look alike without positions");
  expect(done.losses).toHaveLength(11);
  expect(snapshots.at(-1)!.loss[0]).toBeLessThan(snapshots[0].loss[0]);
  expect(done.made.finds).toEqual([[false, true, true, false], [false, false, false, true]]); // prettier-ignore
  expect([done.made.tokens, done.made.places, done.made.w_q, done.made.w_k].map((rows) => rows.length)).toEqual([3, 4, 16, 16]); // prettier-ignore
});

test("heads reach their targets, with unequal shares too", () => {
  const words = "The tired horse crossed the narrow road because it was late".split(" ");
  const targets = [target("a", [[8, 2], [8, 6]], [0.8, 0.2]), target("b", [[3, 2], [9, 8]])]; // prettier-ignore
  const { snapshots, done } = crafted({ words, targets, steps: 120 });
  const { patterns, hit } = snapshots.at(-1)!;
  expect(Math.min(...hit)).toBeGreaterThan(0.95);
  expect(patterns[8 * 11 + 2]).toBeCloseTo(0.8, 1);
  expect(patterns[8 * 11 + 6]).toBeCloseTo(0.2, 1);
  expect(done.misses).toEqual([[], []]);
});

test("a row that is missed says what is too small or too short", () => {
  const words = Array.from({ length: 24 }, (_, at) => `w${at}`);
  const targets = [target("jumps", words.slice(1).map((_, at) => [at + 1, ((at + 1) * 7) % (at + 2)]))]; // prettier-ignore
  const why = (asked: Partial<Asked>) =>
    crafted({ words, targets, ...asked }).done.misses[0].map((miss) => miss.why).join(); // prettier-ignore
  expect(why({ dHead: 1, steps: 60 })).toContain("d_head=1 is too small: a head of 32 numbers reaches");
  expect(why({ dHead: 16, steps: 10 })).toContain("10 steps are too few: after 40 this row reaches");
});

test.each([
  [target("Ahead", [[0, 1]]), "Ahead: 'it' (0) cannot attend ahead to 'was' (1)"],
  [target("Away", [[5, 1]]), "the arrow 5 → 1 is outside the words 0–3"],
  [target("Much", [[2, 0], [2, 1]], [0.8, 0.4]), "Much: the row of 'it' (2) adds up to 1.2; a softmax row sums to"],
  [target("Few", [[2, 0]], [0.2]), "adds up to 0.2; a softmax row sums to exactly 1, as in 0 .5 .5 0: give more"],
  [target("Less", [[2, 0], [2, 1]], [2, -1]), "shares are numbers from 0 to 1"],
] as const)("a target that no head can have is refused: %o", (wrong, says) => {
  expect(() => crafted({ targets: [wrong] })).toThrow(says);
}); // prettier-ignore
