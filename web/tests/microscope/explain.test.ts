import { expect, test } from "vitest";
import { layOut, rowsOf } from "../../src/microscope/trace/trace-layout";
import { tableRow } from "../../src/microscope/trace/trace-sentence";
import { mainWriter, tableRows } from "../../src/microscope/why/why-sentence";
import { MARK, share, SITES, TRACE, WHY } from "./explain-cases";

test("of parts that pull against each other, the one in the direction of the score is the main one", () => {
  const torn = { ...WHY, total: 0.42, answered: [share("mlp 1", "mlp", -6.82), MARK] };
  expect(mainWriter(torn)?.name).toBe("4.3");
  expect(mainWriter({ ...torn, total: -0.42 })?.name).toBe("mlp 1");
});

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

test("an explained arrow as a table holds every writer, drawn or not", () => {
  expect(tableRows(WHY)).toEqual([
    ["Query side", "MLP 3", 3.16, "", ""],
    ["Key side", "4.3", 4.3, "the", 0.96],
    ["Key side", "2.1", 2.05, "the", 0.98],
    ["Key side", "bias", 1, "", ""],
  ]);
});

test("a trace as a table names the unit of every number", () => {
  const { lines } = layOut(TRACE, 15, { width: 800, phone: false, sites: SITES });
  const rows = lines.map((line) => tableRow(TRACE, line));
  expect(rows).toContainEqual(["MLP 7", "river", "adds to the logit", 5.86, "logit"]);
  expect(rows).toContainEqual(["4.3", "5.6", "key side", 4.3, "score"]);
  expect(rows).toContainEqual(["the", "4.3", "from the attended token", 0.96, "weight"]);
});
