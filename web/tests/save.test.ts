import { expect, test } from "vitest";
import { palette } from "../src/draw/colour";
import { csv, svg, type Sheet } from "../src/save/pattern";

const colours = palette((token) => ({ "--w0": "#ffffff", "--w8": "#000000", "--accent": "#cf3f20" })[token] ?? "#808080");
const sheet: Sheet = {
  title: "small, head 1.2",
  rows: ["a", '"b"', "<c>"],
  columns: ["a", '"b"', "<c>"],
  firstRow: 0,
  firstColumn: 0,
  weight: (row, column) => [[1, 0, 0], [0.25, 0.75, 0], [0, 1 / 3, 2 / 3]][row][column],
  mileage: true,
  causal: true,
  selected: 1,
};

test("weights as a table that another program reads back", () => {
  const [head, ...lines] = csv(sheet).trimEnd().split("\n");
  expect(head).toBe('"small, head 1.2","0 a","1 ""b""","2 <c>"');
  expect(lines[1]).toBe('"1 ""b""",0.2500000,0.7500000,0.000000');
  expect(Number(lines[2].split(",")[3])).toBeCloseTo(2 / 3, 6);
});

test("a picture has a cell a pair below the diagonal, and every name once", () => {
  const drawn = svg(sheet, colours);
  expect(drawn.match(/<rect /g)).toHaveLength(1 + 6);
  expect(drawn).toContain('fill="rgb(207,63,32)">"b"</text>');
  expect(drawn).toContain("&lt;c&gt;</text>");
  expect(svg({ ...sheet, mileage: false, causal: false }, colours).match(/<text /g)).toHaveLength(1 + 3 + 3);
});
