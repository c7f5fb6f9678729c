import { expect, test } from "vitest";
import { layOut, rowsOf } from "../../src/microscope/trace/trace-layout";
import { firstSentence, mainWriter, secondSentence } from "../../src/microscope/why/why-sentence";
import { MARK, share, SITES, TRACE, WHY } from "./explain-cases";

test("a head with two fifths of the score is the reason, and what it read says how", () => {
  expect(firstSentence(WHY)).toBe(
    "**5.6** attends to *river* because **4.3** marked it as the word after *the*: 4.30 of 7.52.",
  );
  expect(secondSentence(WHY)).toContain("**2.1** attended to the same token (+2.05).");
  const broad = { ...WHY, answered: [share("4.3", "head", 2), share("mlp 1", "mlp", 1.9)] };
  expect(firstSentence(broad)).toContain("No single component explains it");
  expect(firstSentence({ ...WHY, position_part: 5 })).toContain("5.00 of 7.52 depends only on distance (7 back)");
  expect(firstSentence({ ...WHY, n_visible: 1 })).toContain("sees one key");
});

test("two writers that pull against each other are both named", () => {
  const torn = { ...WHY, total: 0.42, answered: [share("mlp 1", "mlp", -6.82), MARK] };
  expect(mainWriter(torn)?.name).toBe("4.3");
  expect(firstSentence(torn)).toContain("**4.3** raises the score (+4.30) and **MLP 1** lowers it (−6.82)");
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
