import { expect, test } from "vitest";
import lines from "./sentences.jsonl?raw";
import type { Trace, Why } from "../../src/source/source";
import { headline, underline } from "../../src/microscope/trace/trace-sentence";
import { firstSentence, secondSentence } from "../../src/microscope/why/why-sentence";

// Written by `python -m tests.heads.explain.test_sentences`, which measures what each of these sentences says.
interface Case {
  why?: Why;
  trace?: Trace;
  sentence: string;
}
const cases = lines
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Case);

/** As a terminal prints it: tokens in quotes, no marks, a plain minus. */
const plain = (text: string) =>
  text
    .replaceAll("**", "")
    .replace(/\*([^*]*)\*/g, "“$1”")
    .replaceAll("∗", "*")
    .replaceAll("−", "-")
    .trim();

test("the page says what Python says and measures", () => {
  expect(cases.length).toBeGreaterThan(30);
  for (const { why, trace, sentence } of cases) {
    const said = why ? [firstSentence(why), secondSentence(why)] : [headline(trace!), underline(trace!)];
    expect(plain(said.join(" "))).toBe(sentence);
  }
});
