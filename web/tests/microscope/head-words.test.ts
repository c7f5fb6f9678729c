import { describe, expect, it } from "vitest";
import {
  GAIN,
  REST,
  asRule,
  inCommon,
  piecesOf,
  ruleScores,
  said,
  segmentsOf,
  sentenceOf,
  strongestRules,
} from "../../src/microscope/rules/head-words";
import type { HeadWords } from "../../src/source/source";
import { speak } from "../../src/words/words";
import shipped from "../../../src/headscope/models/embedded/rules.json";

const heads = shipped.heads as unknown as HeadWords[];
const places = heads.map(({ head }) => ({ name: head }) as Parameters<typeof ruleScores>[2][number]);
const known = { card: {}, of: (name: string) => heads.find(({ head }) => head === name) };

describe("the sentence of a head", () => {
  it("is Python's, number by number, for every head of the embedded model", async () => {
    await speak(["en"]);
    for (const head of heads) expect(sentenceOf(head)).toBe(head.sentence);
  });

  it("sets its numbers apart and loses no letter", () => {
    for (const head of heads) {
      const pieces = piecesOf(head.sentence);
      expect(pieces.map(({ text }) => text).join("")).toBe(head.sentence);
      const places = said(head).filter(({ applies }) => applies < 0.995).length;
      expect(pieces.filter(({ kind }) => kind === "where")).toHaveLength(places);
      expect(pieces.filter(({ kind }) => kind === "number")).toHaveLength(
        2 + said(head).length + (head.on_content >= 0.01 ? 1 : 0) + (head.example ? 2 : 0),
      );
    }
  });

  it("ends with an example where some of the rest depends on content, and leaves its tokens whole", () => {
    expect(heads.some(({ example }) => example)).toBe(true);
    const example = { query: ".25", key: "(3 %)", weight: 0.81, by_rules: 0.02 };
    const written = sentenceOf({ ...heads[0], example });
    expect(written).toMatch(/For example, “\.25” reads “\(3 %\)” with \.81, by its rules with \.02\.$/);
    const pieces = piecesOf(written).filter(({ text }) => text === "“.25”" || text === "“(3 %)”");
    expect(pieces.map(({ kind }) => kind)).toEqual(["text", "text"]);
  });
});

describe("the bar", () => {
  it("ends at 1, and its parts are the fitted ones", () => {
    for (const head of heads) {
      const segments = segmentsOf(head);
      expect(segments.at(-1)!.to).toBe(1);
      expect(segments.at(-1)!.part).toBeCloseTo(1 - head.rest.value);
      segments.slice(0, -1).forEach((segment, k) => expect(segment.to - segment.from).toBeCloseTo(said(head)[k].part));
    }
  });
});

describe("scores for the grid", () => {
  it("are the measures, and the part of the strongest rule where it is the strongest", () => {
    const at = heads.findIndex(({ head }) => head === "4.3");
    expect(ruleScores(known, REST, places)![at]).toBeCloseTo(heads[at].rest.value);
    expect(ruleScores(known, GAIN, places)![at]).toBeCloseTo(heads[at].gain.value);
    const scores = ruleScores(known, asRule("previous token"), places)!;
    heads.forEach((head, k) => expect(Number.isNaN(scores[k])).toBe(head.strongest !== "previous token"));
    expect(ruleScores({ ...known, card: null }, REST, places)).toBeNull();
  });

  it("count every head with a strongest rule once", () => {
    const counted = strongestRules(heads).reduce((sum, { count }) => sum + count, 0);
    expect(counted).toBe(heads.filter(({ strongest }) => strongest).length);
  });

  it("list recent tokens once, however far they reach", () => {
    const recent = heads.filter(({ strongest }) => strongest?.startsWith("decay "));
    const listed = strongestRules(heads).filter(({ rule }) => rule.name.startsWith("decay"));
    expect(new Set(recent.map(({ strongest }) => strongest)).size).toBeGreaterThan(1);
    expect(listed).toEqual([{ rule: { name: "decay", phrase: "recent tokens" }, count: recent.length }]);
    for (const question of [asRule("decay"), asRule(recent[0].strongest!)]) {
      const scores = ruleScores(known, question, places)!;
      heads.forEach((head, k) => expect(Number.isNaN(scores[k])).toBe(!recent.includes(head)));
    }
  });
});

it("two patterns have in common the smaller of each weight, the first row apart", () => {
  const pattern = Float32Array.from([1, 0, 0.25, 0.75]);
  const rule = Float32Array.from([1, 0, 0.5, 0.5]);
  expect(inCommon(pattern, rule, 2)).toBeCloseTo(0.75);
});
