// What a published site computes itself is what Python computes (tests/app/publish/lab_answers.py).
import { expect, test } from "vitest";
import { AttentionLayer, type Weights } from "../../src/source/published/lab/attention-layer";
import { craftHeads, jobOf, lossOf } from "../../src/source/published/lab/craft-heads";
import { means, readings } from "../../src/source/published/lab/typed-numbers";
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

test("heads learn as Python's do from the same weights", () => {
  const { targets, sentence, sizes, x, weights, losses, patterns } = python.training;
  const job = jobOf({ sentence, targets: targets as never });
  const own = Object.fromEntries(Object.entries(weights).map(([name, each]) => [name, Float64Array.from(each)]));
  const layer = new AttentionLayer(sizes, Float64Array.from(x), own as Weights);
  for (const wanted of losses) {
    const now = layer.patterns();
    close(lossOf(now, job), wanted, 1e-5);
    if (wanted !== losses.at(-1)) layer.learn(now, job.all);
  }
  close([...layer.patterns()], patterns, 1e-5);
});

test("training tells of itself as the server does, and says what it misses and why", () => {
  const targets = [{ name: "before", arrows: [[1, 0], [2, 1]] }, { name: "impossible", arrows: [[3, 0], [3, 2]], shares: [1, 0] }]; // prettier-ignore
  const told = [];
  for (const { values, arrays } of craftHeads({ sentence: "it was it was", targets, steps: 10, places: false } as never))
    told.push({ values, arrays }); // prettier-ignore
  expect(told[0].values).toMatchObject({ event: "begun", words: ["it", "was", "it", "was"], steps: 10 });
  const last = told.at(-1)!;
  if (last.values.event !== "done") throw new Error("the last event is not the end");
  expect(last.values.heads[1].misses[0].why).toContain("look alike without positions");
  expect(last.arrays.losses.data).toHaveLength(11 * 2);
  const [first, end] = [told[1].values, told.at(-2)!.values] as { loss: number[] }[];
  expect(end.loss[0]).toBeLessThan(first.loss[0]);
});
