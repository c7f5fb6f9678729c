import { expect, test } from "vitest";
import { layOut, rowsOf } from "../../src/microscope/trace/trace-layout";
import { mainWriter } from "../../src/microscope/why/why-sentence";
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
