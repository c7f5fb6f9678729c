import { expect, test } from "vitest";
import { palette } from "../../src/draw/colour";
import { patternPicture, type Sheet } from "../../src/microscope/pattern/pattern-picture";
import { csv, html, svg } from "../../src/save/picture";

const colours = palette(
  (token) => ({ "--w0": "#ffffff", "--w8": "#000000", "--accent": "#cf3f20" })[token] ?? "#808080",
);
const page = { paper: "#fff", ink: "#000" };
const sheet: Sheet = {
  file: "head-1.2",
  title: "small, head 1.2",
  rows: ["a", '"b"', "<c>"],
  columns: ["a", '"b"', "<c>"],
  firstRow: 0,
  firstColumn: 0,
  weight: (row, column) =>
    [
      [1, 0, 0],
      [0.25, 0.75, 0],
      [0, 1 / 3, 2 / 3],
    ][row][column],
  top: 1,
  mileage: true,
  causal: true,
  selected: 1,
};

test("weights as a table that another program reads back", () => {
  const [head, ...lines] = csv(patternPicture(sheet, colours).table).trimEnd().split("\n");
  expect(head).toBe('"small, head 1.2","0 a","1 ""b""","2 <c>"');
  expect(lines[1]).toBe('"1 ""b""",0.25,0.75,0');
  expect(Number(lines[2].split(",")[3])).toBeCloseTo(2 / 3, 6);
});

test("a word that looks like a formula stays a word", () => {
  expect(csv({ columns: ["token"], rows: [["=SUM(A1)"], ["@x"], [-1]] })).toBe('"token"\n"\'=SUM(A1)"\n"\'@x"\n-1\n');
});

test("a picture has a cell a pair below the diagonal, and every name once", () => {
  const drawn = svg(patternPicture(sheet, colours), page);
  expect(drawn.match(/<rect /g)).toHaveLength(1 + 6);
  expect(drawn).toMatch(/fill="rgb\(207,63,32\)"[^>]*>&quot;b&quot;<\/text>/);
  expect(drawn).toContain("&lt;c&gt;</text>");
  expect(svg(patternPicture({ ...sheet, mileage: false, causal: false }, colours), page).match(/<text /g)).toHaveLength(
    1 + 3 + 3,
  );
});

test("a saved page holds the picture and its numbers, and nothing that a word could start", () => {
  const file = html({ ...patternPicture(sheet, colours), note: "<script>alert(1)</script>" }, page);
  expect(file).toContain("<svg ");
  expect(file).toContain("<td>0.75</td>");
  expect(file).not.toContain("<script>");
});
