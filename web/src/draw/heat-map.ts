// Heat map of an attention pattern on a canvas: tiles of weights, seen through a viewport that zooms.
import { css, pixel, weightColour, type Palette } from "./colour";
import type { Tile } from "../source/source";

export interface Viewport {
  row: number;
  column: number;
  span: number; // tokens across and down
}

export interface HeatMapView {
  tile: Tile;
  viewport: Viewport;
  side: number; // CSS pixels of the square
  causal: boolean;
  aside: boolean;
  top: number; // what the darkest colour stands for
}

/** The smallest power of two that leaves at most `most` numbers along an edge. */
export function poolFor(span: number, most: number): number {
  let pool = 1;
  while (span / pool > most) pool *= 2;
  return pool;
}

/** A window moved and sized so that it stays on the text. */
export function clampViewport(viewport: Viewport, length: number, least = 4): Viewport {
  const span = Math.max(Math.min(least, length), Math.min(length, viewport.span));
  const inside = (start: number) => Math.max(0, Math.min(length - span, start));
  return { row: inside(viewport.row), column: inside(viewport.column), span };
}

/** Zoomed about a point given as fractions of the window, so that the token under it stays under it. */
export function zoomViewport(
  viewport: Viewport,
  factor: number,
  across: number,
  down: number,
  length: number,
): Viewport {
  const span = Math.max(Math.min(4, length), Math.min(length, viewport.span * factor));
  return clampViewport(
    {
      row: viewport.row + (viewport.span - span) * down,
      column: viewport.column + (viewport.span - span) * across,
      span,
    },
    length,
  );
}

/** Tokens that one number of a field stands for, down or across: not whole where a text does not divide evenly. */
export function grain(tile: Tile): { down: number; across: number } {
  return {
    down: (tile.rows[1] - tile.rows[0]) / tile.height,
    across: (tile.columns[1] - tile.columns[0]) / tile.width,
  };
}

/** The cell that a token falls into where a range is split into so many cells at n·cell/cells, rounded down. */
export function cellOf(at: number, [start, end]: [number, number], cells: number): number {
  return Math.floor(((at - start + 1) * cells - 1) / (end - start));
}

/** The number of a field that covers this pair of tokens. */
export function weightAt(tile: Tile, row: number, column: number): number {
  const [r, c] = [cellOf(row, tile.rows, tile.height), cellOf(column, tile.columns, tile.width)];
  return r >= 0 && c >= 0 && r < tile.height && c < tile.width ? tile.weights[r * tile.width + c] : 0;
}

export function paintHeatMap(
  context: CanvasRenderingContext2D,
  scale: number,
  view: HeatMapView,
  colours: Palette,
): void {
  const { tile, viewport, side } = view;
  const unit = (side / viewport.span) * grain(tile).across;
  context.clearRect(0, 0, side * scale, side * scale);
  if (unit >= 4) paintCells(context, scale, view, colours, unit);
  else paintPixels(context, scale, view, colours);
}

function blank(view: HeatMapView, row: number, column: number): boolean {
  const { tile } = view;
  const { down, across } = grain(tile);
  return view.causal && Math.floor(tile.columns[0] + column * across) > Math.ceil(tile.rows[0] + (row + 1) * down) - 1;
}

function shown(view: HeatMapView, row: number, column: number): number {
  if (view.aside && view.tile.columns[0] + column === 0) return 0;
  return view.tile.weights[row * view.tile.width + column] / view.top;
}

function paintCells(
  context: CanvasRenderingContext2D,
  scale: number,
  view: HeatMapView,
  colours: Palette,
  unit: number,
): void {
  const { tile, viewport, side } = view;
  const gap = unit >= 8 ? scale : 0;
  const edge = (start: number, offset: number, k: number) =>
    Math.round((((start - offset) * side) / viewport.span + k * unit) * scale);
  for (let row = 0; row < tile.height; row++) {
    const y = edge(tile.rows[0], viewport.row, row);
    const height = edge(tile.rows[0], viewport.row, row + 1) - y - gap;
    if (y + height < 0 || y > side * scale) continue;
    for (let column = 0; column < tile.width; column++) {
      if (blank(view, row, column)) continue;
      const x = edge(tile.columns[0], viewport.column, column);
      context.fillStyle = css(weightColour(colours, shown(view, row, column)));
      context.fillRect(x, y, edge(tile.columns[0], viewport.column, column + 1) - x - gap, height);
    }
  }
}

function paintPixels(context: CanvasRenderingContext2D, scale: number, view: HeatMapView, colours: Palette): void {
  const { tile, viewport, side } = view;
  const image = new ImageData(tile.width, tile.height);
  const pixels = new Uint32Array(image.data.buffer);
  const ramp = Uint32Array.from({ length: 1024 }, (_, k) => pixel(weightColour(colours, (k / 1023) ** 2)));
  for (let row = 0; row < tile.height; row++)
    for (let column = 0; column < tile.width; column++)
      if (!blank(view, row, column))
        pixels[row * tile.width + column] = ramp[Math.round(Math.sqrt(Math.min(1, shown(view, row, column))) * 1023)];
  const small = new OffscreenCanvas(tile.width, tile.height);
  small.getContext("2d")!.putImageData(image, 0, 0);
  const place = (start: number, offset: number) => ((start - offset) * side * scale) / viewport.span;
  const size = ([start, end]: [number, number]) => ((end - start) * side * scale) / viewport.span;
  context.imageSmoothingEnabled = size(tile.columns) < tile.width;
  context.drawImage(
    small,
    place(tile.columns[0], viewport.column),
    place(tile.rows[0], viewport.row),
    size(tile.columns),
    size(tile.rows),
  );
}
