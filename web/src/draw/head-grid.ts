// Layout and painting of the grid of all heads: thumbnails of their patterns, or one shade per head.
import type { Palette } from "./colour";
import { rampPixels } from "./colour";

export interface Row {
  n_heads: number;
  n_kv_heads: number;
}

export interface GridCell {
  head: number; // among all heads of the model
  row: number;
  column: number;
  x: number;
  y: number;
}

export interface GridLayout {
  cell: number;
  cellHeight: number;
  width: number;
  height: number;
  left: number;
  top: number;
  rows: number;
  columns: number;
  cells: GridCell[]; // in the order in which the heads stand
  at: Int32Array; // head → index into cells
}

export interface GridShape {
  rows: Row[];
  order: number[]; // heads, best first, or in the model's order
  ranked: boolean;
  width: number;
  heightForRows: number;
  left: number;
}

const GAP = 2;
const GROUP_GAP = 9;
const TOP = 30;
const SMALLEST = 12;
const LARGEST = 38;

function groupOf(row: Row, head: number): number {
  return Math.floor((head * row.n_kv_heads) / row.n_heads);
}

function widestRow(rows: Row[]): Row {
  return rows.reduce((best, row) => (row.n_heads > best.n_heads ? row : best), rows[0]);
}

/** Thumbnails upright: layers down, heads across. null where they would be too small to see. */
export function thumbnailLayout(shape: GridShape): GridLayout | null {
  const widest = widestRow(shape.rows);
  const columns = widest.n_heads;
  const bracketed = !shape.ranked && widest.n_kv_heads > 1 && widest.n_kv_heads < widest.n_heads;
  const extra = bracketed ? GROUP_GAP - GAP : 0;
  const rows = shape.ranked ? Math.ceil(shape.order.length / columns) : shape.rows.length;
  const across = (shape.width - shape.left - (columns - 1) * GAP - (widest.n_kv_heads - 1) * extra) / columns;
  const down = (shape.heightForRows - TOP) / rows - GAP;
  const cell = Math.min(LARGEST, Math.floor(across), Math.max(15, Math.floor(down)));
  if (cell < SMALLEST) return null;
  const place = (row: number, column: number, group: number) => ({
    x: shape.left + column * (cell + GAP) + group * extra,
    y: TOP + row * (cell + GAP),
  });
  return layout(shape, { cell, cellHeight: cell, rows, columns, top: TOP }, place, cell);
}

/** One shade per head: on a phone layers across and heads down, else the other way; gaps between KV groups. */
export function shadeLayout(shape: GridShape, lying: boolean): GridLayout {
  const widest = widestRow(shape.rows);
  const rows = shape.ranked ? Math.ceil(shape.order.length / widest.n_heads) : shape.rows.length;
  const grouped = !shape.ranked && widest.n_kv_heads > 1 && widest.n_kv_heads < widest.n_heads;
  const gap = !grouped ? 0 : lying ? 4 : 3;
  const [across, gaps] = lying ? [rows, 0] : [widest.n_heads, gap * (widest.n_kv_heads - 1)];
  const cell = Math.max(4, Math.floor((shape.width - shape.left - gaps) / across));
  const cellHeight = lying
    ? Math.max(13, Math.min(cell, 24))
    : Math.max(5, Math.min(cell * 2, Math.floor((shape.heightForRows - TOP) / rows)));
  const top = lying ? 2 : TOP;
  const place = (row: number, column: number, group: number) =>
    lying
      ? { x: shape.left + row * cell, y: top + column * cellHeight + group * gap }
      : { x: shape.left + column * cell + group * gap, y: top + row * cellHeight };
  return layout(shape, { cell, cellHeight, rows, columns: widest.n_heads, top }, place, 0);
}

function layout(
  shape: GridShape,
  size: { cell: number; cellHeight: number; rows: number; columns: number; top: number },
  place: (row: number, column: number, group: number) => { x: number; y: number },
  rim: number,
): GridLayout {
  const where = shape.rows.flatMap((row, index) =>
    Array.from({ length: row.n_heads }, (_, head) => ({ row: index, column: head, group: groupOf(row, head) })),
  );
  const cells = shape.order.map((head, index): GridCell => {
    const spot = shape.ranked
      ? { row: Math.floor(index / size.columns), column: index % size.columns, group: 0 }
      : where[head];
    return { head, row: spot.row, column: spot.column, ...place(spot.row, spot.column, spot.group) };
  });
  const at = new Int32Array(shape.order.length);
  cells.forEach((spot, index) => (at[spot.head] = index));
  const width = Math.max(...cells.map((spot) => spot.x)) + (rim || size.cell);
  const height = Math.max(...cells.map((spot) => spot.y)) + (rim || size.cellHeight) + GAP;
  return { ...size, left: shape.left, width, height, cells, at };
}

/** The head under a point, or the nearest in its row: a finger need not be exact. */
export function headAt(grid: GridLayout, x: number, y: number): number {
  let best = grid.cells[0];
  let least = Infinity;
  for (const spot of grid.cells) {
    const dx = Math.max(spot.x - x, 0, x - spot.x - grid.cell);
    const dy = Math.max(spot.y - y, 0, y - spot.y - grid.cellHeight);
    const distance = dx * dx + dy * dy;
    if (distance < least) [best, least] = [spot, distance];
  }
  return best.head;
}

/** The next head for an arrow key: along the row, or to the same column of the next row. */
export function neighbour(grid: GridLayout, head: number, rows: number, columns: number): number {
  const from = grid.cells[grid.at[head]];
  const row = (from.row + rows + grid.rows) % grid.rows;
  const inRow = grid.cells.filter((spot) => spot.row === row).sort((a, b) => a.column - b.column);
  const column =
    columns === 0 ? Math.min(from.column, inRow.length - 1) : (from.column + columns + inRow.length) % inRow.length;
  return inRow[column].head;
}

export interface Thumbnails {
  bytes: Uint8Array; // [head, side, side], 255·√weight
  side: number;
  causal: boolean[]; // of each head
  brightness: (head: number) => number;
  aside: boolean; // the first column is set aside
}

/** All thumbnails into one image of width × scale pixels per row. */
export function paintThumbnails(
  pixels: Uint32Array,
  stride: number,
  grid: Pick<GridLayout, "cell" | "cells">,
  scale: number,
  thumbs: Thumbnails,
  colours: Palette,
): void {
  const shadesOf = new Map<number, Uint32Array>();
  const side = Math.round(grid.cell * scale);
  const take = Int32Array.from({ length: side }, (_, k) =>
    Math.min(thumbs.side - 1, Math.floor((k * thumbs.side) / side)),
  );
  for (const spot of grid.cells) {
    const brightness = Math.round(thumbs.brightness(spot.head) * 32) / 32;
    let ramp = shadesOf.get(brightness);
    if (!ramp) shadesOf.set(brightness, (ramp = rampPixels(colours, brightness)));
    const from = spot.head * thumbs.side * thumbs.side;
    const x0 = Math.round(spot.x * scale);
    const y0 = Math.round(spot.y * scale);
    for (let y = 0; y < side; y++) {
      const row = take[y];
      const end = thumbs.causal[spot.head] ? row : thumbs.side - 1;
      let to = (y0 + y) * stride + x0;
      for (let x = 0; x < side && take[x] <= end; x++, to++)
        pixels[to] = ramp[thumbs.aside && take[x] === 0 ? 0 : thumbs.bytes[from + row * thumbs.side + take[x]]];
    }
  }
}

/** The same on a canvas of device pixels, which it fills. */
export function drawThumbnails(
  context: CanvasRenderingContext2D,
  grid: Pick<GridLayout, "cell" | "cells">,
  scale: number,
  thumbs: Thumbnails,
  colours: Palette,
): void {
  const image = context.createImageData(context.canvas.width, context.canvas.height);
  paintThumbnails(new Uint32Array(image.data.buffer), image.width, grid, scale, thumbs, colours);
  context.putImageData(image, 0, 0);
}
