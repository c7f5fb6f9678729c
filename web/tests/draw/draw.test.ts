import { expect, test } from "vitest";
import { arcs } from "../../src/draw/arcs";
import { css, palette, signedColour, weightColour } from "../../src/draw/colour";
import { clampViewport, poolFor, weightAt, zoomViewport } from "../../src/draw/heat-map";
import { axisEnd, histogram, rank } from "../../src/draw/histogram";
import { strongest } from "../../src/draw/number-strip";

const ramp = ["#f5f2eb", "#ded6ba", "#bfbba6", "#9da09c", "#7b8693", "#5d6c86", "#415378", "#2a3967", "#151f56"];
const colours = palette((token) =>
  /^--w\d$/.test(token) ? ramp[Number(token[3])] : ({ "--neg": "#94620d", "--pos": "#1d377b" }[token] ?? "#f5f2eb"),
);

test("stop k of the ramp is the weight (k/8)²", () => {
  for (let stop = 0; stop <= 8; stop++)
    expect(css(weightColour(colours, (stop / 8) ** 2))).toBe(css(colours.ramp[stop]));
  expect(css(weightColour(colours, 7))).toBe(css(colours.ramp[8]));
});

test("signed colours meet at zero", () => {
  expect(css(signedColour(colours, 0))).toBe(css(colours.zero));
  expect(css(signedColour(colours, -1))).toBe(css(colours.neg));
  expect(css(signedColour(colours, 1))).toBe(css(colours.pos));
});

test("zooming keeps the token under the pointer", () => {
  const from = { row: 100, column: 40, span: 200 };
  const to = zoomViewport(from, 0.5, 0.25, 0.75, 4096);
  expect(to.span).toBe(100);
  expect(to.column + 0.25 * to.span).toBe(from.column + 0.25 * from.span);
  expect(to.row + 0.75 * to.span).toBe(from.row + 0.75 * from.span);
});

test("a window never leaves the text", () => {
  expect(clampViewport({ row: -5, column: 90, span: 50 }, 100)).toEqual({ row: 0, column: 50, span: 50 });
  expect(clampViewport({ row: 3, column: 3, span: 500 }, 100)).toEqual({ row: 0, column: 0, span: 100 });
  expect(clampViewport({ row: 1, column: 1, span: 1 }, 100).span).toBe(4);
  expect(clampViewport({ row: 0, column: 0, span: 9 }, 2).span).toBe(2);
});

test("pooling doubles until the picture is small enough", () => {
  expect([512, 513, 4096, 16384].map((span) => poolFor(span, 512))).toEqual([1, 2, 8, 32]);
});

test("a pooled field finds the cell of a pair, also where cells are uneven", () => {
  // 5 tokens in 2 cells: 0–1 and 2–4
  const tile = {
    look: "",
    head: "",
    rows: [0, 5] as [number, number],
    columns: [0, 5] as [number, number],
    pool: 3,
    measure: "weight" as const,
    weights: Float32Array.of(1, 2, 3, 4),
    height: 2,
    width: 2,
  };
  expect([0, 1, 2, 3, 4].map((row) => weightAt(tile, row, 0))).toEqual([1, 1, 3, 3, 3]);
  expect(weightAt(tile, 4, 4)).toBe(4);
  expect(weightAt(tile, 5, 0)).toBe(0);
});

test("arcs leave out what cannot be seen and draw the selected token last", () => {
  const weights = [
    [1, 0, 0],
    [0.99, 0.01, 0],
    [0.3, 0.3, 0.4],
  ];
  const drawn = arcs({ length: 3, weight: (query, key) => weights[query][key], cell: 20, x: 100, selected: 1 });
  expect(drawn.map(({ query, key }) => [query, key])).toEqual([
    [2, 0],
    [2, 1],
    [2, 2],
    [0, 0],
    [1, 0],
  ]);
  expect(drawn.filter((arc) => arc.path === "").map((arc) => arc.query)).toEqual([2, 0]);
});

test("a strip keeps the strongest number of each pixel, with its sign", () => {
  expect(strongest([1, -3, 2, 0, 0.5, -0.1], 3)).toEqual([-3, 2, 0.5]);
  expect(strongest([1, 2], 10)).toEqual([1, 2]);
});

test("histograms count by the root, and ranks skip heads without an answer", () => {
  const values = [0, 0, 0, 0, 1, NaN];
  const { bars } = histogram(values, axisEnd(values, "share"), 4);
  expect(bars).toEqual([1, 0, 0, 0.5]);
  expect(rank(values, 0)).toBe(2);
  expect(axisEnd([2, 5], "tokens")).toBeCloseTo(5.2);
});
