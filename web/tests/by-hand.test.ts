// The worked example, its exercise and written arrows, against answers that an implementation in Python gave.
import { expect, test } from "vitest";
import { checkInvented, EXERCISE, type Invented } from "../src/by-hand/exercises";
import { Fork } from "../src/figures/fork/fork.svelte";
import { ownSentence, parseArrows, splitWords } from "../src/four-heads/written-arrows";
import python from "./by-hand-answers.json";

/** Equal, but numbers to a tolerance. */
function close(found: unknown, wanted: unknown): void {
  if (typeof wanted === "number") return expect(found).toBeCloseTo(wanted, 12);
  if (wanted === null || typeof wanted !== "object") return expect(found).toBe(wanted);
  const [ours, theirs] = [found, wanted] as Record<string, unknown>[];
  expect(Object.keys(ours).sort()).toEqual(Object.keys(theirs).sort());
  for (const key of Object.keys(theirs)) close(ours[key], theirs[key]);
}

test("the numbers typed over in the worked example lead to Python's outputs and y", () => {
  const { concatenated, mixed, ...typed } = python.worked;
  const fork = new Fork();
  fork.drawn = { ...fork.drawn, ...typed };
  close([...fork.output(0), ...fork.output(1)], concatenated);
  close(fork.y, mixed);
});

test("invented heads are marked as in Python", () => {
  for (const [asked, checked] of python.invented) expect(checkInvented(asked as Invented)).toEqual(checked);
});

test("a right answer has only right remarks", () => {
  const heads = [
    { horse: 0.6, road: 0.4, because: 0, was: 0, tired: 0 },
    { horse: 0, road: 0, because: 0, was: 0.3, tired: 0.7 },
  ];
  const sums = heads.map((card) =>
    EXERCISE.values.horse.map((_, at) =>
      Object.entries(card).reduce((sum, [word, share]) => sum + share * EXERCISE.values[word][at], 0),
    ),
  );
  const told = { sums: sums.map((each) => each.join(" ")), concatenated: sums.flat().join(" ") };
  const { remarks } = checkInvented({ heads, ...told });
  expect(remarks.map(({ about }) => about)).toEqual(["head 1: shares", "head 2: shares", "two different questions", "head 1: sum", "head 2: sum", "concatenation"]); // prettier-ignore
  expect(remarks.every(({ right }) => right)).toBe(true);
  expect(() => checkInvented({ heads, sums: ["many"] })).toThrow("could not read 'many' as numbers");
});

test("written arrows are read as in Python", () => {
  const [sentence, words, text, told] = python.arrows as [string, string[], string, object];
  expect(splitWords(sentence)).toEqual(words);
  close(parseArrows(text, words), told);
  expect(() => parseArrows("the > road", words)).not.toThrow();
  expect(() => parseArrows("it > it, cat > it", words)).toThrow("there is no word 'cat'");
  for (const wrong of ["b > a 1000%", `b@${"9".repeat(5000)} > a`])
    expect(() => parseArrows(wrong, ["a", "b"])).toThrow();
  const own = ownSentence("one two three", [{ name: "a" }, { name: "before" }] as never);
  expect(own.targets.map((target) => target.arrows)).toEqual([
    [],
    [
      [1, 0],
      [2, 1],
    ],
  ]);
});
