import { expect, test } from "vitest";
import { layOut, rowsOf } from "../../src/microscope/trace/trace-layout";
import { firstSentence, mainWriter, secondSentence } from "../../src/microscope/why/why-sentence";
import type { Trace, TraceStep, Why, WriterShare } from "../../src/source/source";

const share = (name: string, kind: string, value: number, read: WriterShare["read"] = null): WriterShare => ({
  name,
  kind,
  value,
  position_part: 0,
  read,
});
const MARK = share("4.3", "head", 4.3, { position: 6, token: " the", weight: 0.96 });
const WHY: Why = {
  look: "x",
  head: "5.6",
  group: ["5.6"],
  query: { position: 14, token: " the" },
  key: { position: 7, token: " river" },
  weight: 0.55,
  score: 7.66,
  baseline: 0.14,
  total: 7.52,
  minus: "mean",
  n_visible: 15,
  sink: null,
  position_part: 0,
  asked: [share("mlp 3", "mlp", 3.16)],
  answered: [
    MARK,
    share("2.1", "head", 2.05, { position: 6, token: " the", weight: 0.98 }),
    share("bias", "reader", 1),
  ],
  terms: {},
  pairs: [[4.3, 2.05, 1]],
  pairs_count: 3,
  pairs_sum: 7.52,
  pairs_size: 7.52,
  error: 0,
};

test("a head with two fifths of the score is the reason, and what it read says how", () => {
  expect(firstSentence(WHY)).toBe(
    "**5.6** reads *river* because **4.3** marked it as the word after *the*: 4.30 of 7.52.",
  );
  expect(secondSentence(WHY)).toContain("**2.1** wrote the same there (+2.05).");
  const broad = { ...WHY, answered: [share("4.3", "head", 2), share("mlp 1", "mlp", 1.9)] };
  expect(firstSentence(broad)).toContain("no single writer explains it");
  expect(firstSentence({ ...WHY, position_part: 5 })).toContain("because of its place, 7 back: 5.00 of 7.52");
  expect(firstSentence({ ...WHY, n_visible: 1 })).toContain("sees one key");
});

test("two writers that pull against each other are both named", () => {
  const torn = { ...WHY, total: 0.42, answered: [share("mlp 1", "mlp", -6.82), MARK] };
  expect(mainWriter(torn)?.name).toBe("4.3");
  expect(firstSentence(torn)).toContain("**4.3** speaks for it (+4.30), **MLP 1** against it (−6.82)");
});

const nothing = { count: 0, up: 0, down: 0 };
const READ = { position: 7, token: " river", weight: 0.55, share: 0.8, total: 7.52, asked: [], answered: [MARK] };
const STEP: TraceStep = {
  name: "5.6",
  kind: "head",
  position: 14,
  token: " the",
  share: 0.8,
  rests: false,
  note: "",
  left_out: nothing,
  reads: [{ ...READ, values: [], left_out: nothing }],
};
const TRACE: Trace = {
  look: "x",
  position: { position: 14, token: " the" },
  token: { text: " river", id: 3, probability: 0.45 },
  minus: null,
  total: 10.76,
  constant: 0,
  floor: 0.03,
  steps: [STEP, { ...STEP, name: "mlp 7", kind: "mlp", share: 5.86, reads: [] }],
  left_out: { count: 64, up: 2.1, down: -1.64 },
};
const SITES = ["0", "1", "2", "3", "4", "5", "6", "7"];

test("parts stand in their layer, later ones above, and lines are as thick as their shares", () => {
  const found = layOut(TRACE, 15, { width: 800, phone: false, sites: SITES });
  const node = (id: string) => found.nodes.find((each) => each.id === id)!;
  expect(node("part mlp 7").y).toBeLessThan(node("part 5.6").y);
  expect(node("key 4.3 7").x).toBeLessThan(node("part 5.6").x);
  const line = (id: string) => found.lines.find((each) => each.id === id)!;
  expect(line("adds mlp 7").width / line("adds 5.6").width).toBeCloseTo(5.86 / 0.8);
  expect(found.bar.height).toBeCloseTo(line("adds mlp 7").width + line("adds 5.6").width);
  expect(line("value 4.3 at 7").parts).toEqual(["4.3", "5.6"]);
});

test("tokens of a long text that nothing uses are folded, and counted", () => {
  const far = { ...TRACE, position: { position: 200, token: " the" } };
  const rows = rowsOf(far, 201);
  expect(rows.filter((row) => row.used).map((row) => row.at)).toEqual([6, 7, 200]);
  expect(rows.reduce((all, row) => all + row.count, 0)).toBe(201);
  expect(rows.length).toBe(5);
});
