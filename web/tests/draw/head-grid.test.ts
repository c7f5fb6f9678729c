import { expect, test } from "vitest";
import { palette } from "../../src/draw/colour";
import {
  headAt,
  neighbour,
  paintThumbnails,
  shadeLayout,
  thumbnailLayout,
  type GridShape,
} from "../../src/draw/head-grid";

const shape = (layers: number, heads: number, kv: number, more: Partial<GridShape> = {}): GridShape => ({
  rows: Array.from({ length: layers }, (_, layer) => ({
    site: String(layer),
    n_heads: heads,
    n_kv_heads: kv,
    causal: true,
  })),
  order: Array.from({ length: layers * heads }, (_, head) => head),
  ranked: false,
  width: 248,
  heightForRows: 690,
  left: 26,
  ...more,
});

test("KV groups stand apart, heads inside a group close together", () => {
  const grid = thumbnailLayout(shape(30, 9, 3))!;
  const step = (head: number) => grid.cells[head + 1].x - grid.cells[head].x;
  expect(step(0)).toBe(grid.cell + 2);
  expect(step(2)).toBe(grid.cell + 9);
  expect(grid.width).toBeLessThanOrEqual(248);
});

test("shades fit their width, and KV groups stand apart, upright and lying", () => {
  const grouped = { ...shape(32, 32, 8), width: 250, left: 26 };
  const upright = shadeLayout(grouped, false);
  expect(upright.width).toBeLessThanOrEqual(250);
  const step = (from: number, to: number) => upright.cells[to].x - upright.cells[from].x;
  expect(step(3, 4) - step(2, 3)).toBe(3);
  expect(shadeLayout({ ...grouped, rows: shape(32, 32, 32).rows }, false).cell).toBe(7);
  const lying = shadeLayout({ ...grouped, width: 358, left: 14 }, true);
  expect(lying.cells[4].y - lying.cells[3].y - (lying.cells[3].y - lying.cells[2].y)).toBe(4);
});

test("too many heads for thumbnails become shades", () => {
  expect(thumbnailLayout(shape(32, 32, 8))).toBeNull();
  expect(shadeLayout(shape(32, 32, 8), false).cell).toBeGreaterThanOrEqual(4);
});

test("ranked heads stand in their order, best first", () => {
  const grid = thumbnailLayout(shape(2, 3, 3, { ranked: true, order: [4, 0, 5, 1, 2, 3] }))!;
  expect(grid.cells.map((spot) => [spot.head, spot.row, spot.column]).slice(0, 4)).toEqual([
    [4, 0, 0],
    [0, 0, 1],
    [5, 0, 2],
    [1, 1, 0],
  ]);
  expect(neighbour(grid, 4, 1, 0)).toBe(1);
});

test("arrows walk the grid and wrap at its edges", () => {
  const grid = thumbnailLayout(shape(3, 4, 4))!;
  expect(neighbour(grid, 0, 0, 1)).toBe(1);
  expect(neighbour(grid, 0, 0, -1)).toBe(3);
  expect(neighbour(grid, 0, -1, 0)).toBe(8);
  expect(neighbour(grid, 11, 1, 0)).toBe(3);
});

test("layers of different width: a column past a short row lands on its last head", () => {
  const rows = [4, 2].map((heads, k) => ({ site: String(k), n_heads: heads, n_kv_heads: heads, causal: true }));
  const grid = thumbnailLayout(shape(0, 0, 0, { rows, order: [0, 1, 2, 3, 4, 5] }))!;
  expect(neighbour(grid, 3, 1, 0)).toBe(5);
});

test("a finger between two heads finds the nearer one", () => {
  const grid = thumbnailLayout(shape(30, 9, 3))!;
  const spot = grid.cells[13];
  expect(headAt(grid, spot.x + 3, spot.y + 3)).toBe(13);
  expect(headAt(grid, spot.x + grid.cell + 0.4, spot.y + 3)).toBe(13);
  expect(headAt(grid, -100, -100)).toBe(0);
});

test("a thumbnail is painted below its diagonal only, each byte in its colour", () => {
  const colours = palette(
    (token) => ({ "--w0": "#000000", "--w8": "#ffffff", "--paper": "#123456" })[token] ?? "#808080",
  );
  const grid = thumbnailLayout(shape(1, 1, 1))!;
  const pixels = new Uint32Array(grid.width * grid.height);
  const bytes = Uint8Array.of(255, 9, 0, 255);
  paintThumbnails(
    pixels,
    grid.width,
    grid,
    1,
    { bytes, side: 2, causal: [true], brightness: () => 1, aside: false },
    colours,
  );
  const at = (x: number, y: number) => pixels[(grid.top + y) * grid.width + grid.left + x];
  expect(at(0, 0)).toBe(0xffffffff);
  expect(at(grid.cell - 1, 0)).toBe(0);
  expect(at(0, grid.cell - 1)).toBe(0xff000000);
  expect(at(grid.cell - 1, grid.cell - 1)).toBe(0xffffffff);
});
