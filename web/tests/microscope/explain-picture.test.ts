import { expect, test } from "vitest";
import { palette } from "../../src/draw/colour";
import { lower, tracePicture } from "../../src/microscope/trace/trace-picture";
import { unmarked, whyPicture, wrap } from "../../src/microscope/why/why-picture";
import { csv, svg, type Picture } from "../../src/save/picture";
import type { CutPath } from "../../src/source/source";
import { SITES, TRACE, WHY } from "./explain-cases";

const colours = palette((token) => ({ "--pos": "#0000ff", "--neg": "#ff0000" })[token] ?? "#808080");
const page = { paper: "#fff", ink: "#000" };
const CUT: CutPath = {
  look: "x",
  writer: "4.3",
  reader: "5.6",
  readers: ["5.6"],
  into: "k",
  query: 14,
  key: 7,
  position: 14,
  token: TRACE.token,
  weight: { as_is: 0.55, predicted: 0.021, true: 0.034 },
  logit: { as_is: 10.76, predicted: 9.96, true: 8.54 },
  probability: { as_is: 0.45, predicted: 0.3, true: 0.2 },
  answers: {},
  others: 0,
};
const arrow = {
  model: "small",
  why: WHY,
  baseline: "mean",
  most: 2,
  pin: { side: "k" as const, name: "4.3" },
  cut: CUT,
};
const traced = {
  model: "small",
  trace: TRACE,
  tokens: Array.from({ length: 15 }, (_, k) => `<${k}>`),
  sites: SITES,
  part: null,
};
const texts = (picture: Picture) => picture.marks.flatMap((mark) => (mark.kind === "text" ? [mark.text] : []));
const paths = (picture: Picture) => picture.marks.flatMap((mark) => (mark.kind === "path" ? [mark] : []));

test("an explained arrow is saved with its sentence, writers, sum, and the truth beside every prediction", () => {
  const found = whyPicture(arrow, colours);
  const said = texts(found);
  expect(found.file).toBe("why-5.6-14-7");
  expect(said[0]).toBe(
    "From the (position 14), head 5.6 gives 55% of its attention to river (position 7). The score is 7.52 above the row's",
  );
  expect(said).toContain("score 7.66 − mean 0.14 = 7.52");
  expect(said).toEqual(expect.arrayContaining(["MLP 3", "+3.16", "4.3", "+4.30", "2.1", "read the .98"]));
  expect(said).toEqual(expect.arrayContaining(["1 other", "+1.00"])); // the third writer is not drawn
  expect(said.slice(-16)).toEqual([
    ...["Cut this path: 4.3 → 5.6, key at river", "unchanged", "predicted", "measured"],
    ...["weight on river", ".550", ".021", ".034"],
    ...["logit of river", "10.76", "9.96", "8.54"],
    ...["probability of river", "45.0 %", "30.0 %", "20.0 %"],
  ]);
  expect(texts(whyPicture({ ...arrow, cut: null }, colours)).join()).not.toContain("predicted");
});

test("the pairs of an explained arrow are drawn between the columns, as thick as they are large", () => {
  const [weak, strong] = paths(whyPicture(arrow, colours));
  expect(strong.thick / weak.thick).toBeCloseTo(4.3 / 2.05);
  expect(svg(whyPicture(arrow, colours), page)).toContain(`d="${strong.d}"`);
});

test("an explained arrow as a table holds every writer, drawn or not", () => {
  const lines = csv(whyPicture(arrow, colours).table).trimEnd().split("\n");
  expect(lines[0]).toBe('"side","component","score","attended to","weight"');
  expect(lines.slice(1)).toEqual([
    '"Query side","MLP 3",3.16,"",""',
    '"Key side","4.3",4.3,"the",0.96',
    '"Key side","2.1",2.05,"the",0.98',
    '"Key side","bias",1,"",""',
  ]);
});

test("a trace is saved with its lines, dashed by kind, and what was left out", () => {
  const found = tracePicture(traced, colours);
  const drawn = svg(found, page);
  expect(found.file).toBe("trace-14-3");
  expect(texts(found)).toEqual(expect.arrayContaining(["river", "45.0 %", "10.76", "MLP 7 +5.86", "5.6 +0.80"]));
  expect(texts(found).some((text) => text.startsWith("Not drawn: 64 smaller contributions"))).toBe(true);
  expect(drawn.match(/stroke-dasharray="6 3"/g)).toHaveLength(2); // the line of 4.3, and the key to the picture
  expect(drawn).toContain("&lt;7&gt;");
  for (const mark of found.marks) {
    if (mark.kind !== "path") continue;
    const reach = mark.d.match(/-?[\d.]+/g)!.map(Number);
    expect(Math.max(...reach)).toBeLessThanOrEqual(Math.max(found.width, found.height));
  }
});

test("a part that is followed stands out in the saved trace", () => {
  const faint = (part: string | null) =>
    paths(tracePicture({ ...traced, part }, colours)).filter((mark) => mark.opacity === 0.06).length;
  expect(faint(null)).toBe(0);
  expect(faint("mlp 7")).toBe(4); // what 5.6 adds, what it carries, its key, and what that key's writer read
});

test("a trace as a table names the unit of every number", () => {
  const rows = tracePicture(traced, colours).table.rows;
  expect(rows).toContainEqual(["MLP 7", "river", "adds to the logit", 5.86, "logit"]);
  expect(rows).toContainEqual(["4.3", "5.6", "key side", 4.3, "score"]);
  expect(rows).toContainEqual(["the", "4.3", "from the attended token", 0.96, "weight"]);
});

test("lines move down as a whole, and sentences break between words", () => {
  const line = { kind: "path" as const, d: "M1 2H3C4 5 6 7 8 9V10L11 12", stroke: "", thick: 1 };
  expect(lower(line, 100)).toMatchObject({ d: "M1 102H3C4 105 6 107 8 109V110L11 112" });
  expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
  expect(unmarked("**5.6** reads *river*")).toBe("5.6 reads river");
});
