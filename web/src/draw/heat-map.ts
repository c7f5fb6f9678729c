// The heat map: a rectangle of weights on a canvas, seen through a window of tokens.
import { css, pixel, weightColour, type Palette } from "./colour";
import type { Field } from "../source/source";

export interface Window {
  row: number;
  column: number;
  span: number; // tokens across and down
}

export interface FieldPicture {
  field: Field;
  window: Window;
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
export function held(window: Window, length: number, least = 4): Window {
  const span = Math.max(Math.min(least, length), Math.min(length, window.span));
  const inside = (start: number) => Math.max(0, Math.min(length - span, start));
  return { row: inside(window.row), column: inside(window.column), span };
}

/** Zoomed about a point given as fractions of the window, so that the token under it stays under it. */
export function zoomed(window: Window, factor: number, across: number, down: number, length: number): Window {
  const span = Math.max(Math.min(4, length), Math.min(length, window.span * factor));
  return held({ row: window.row + (window.span - span) * down, column: window.column + (window.span - span) * across, span }, length);
}

/** Tokens that one number of a field stands for, down or across: not whole where a text does not divide evenly. */
export function grain(field: Field): { down: number; across: number } {
  return { down: (field.rows[1] - field.rows[0]) / field.height, across: (field.columns[1] - field.columns[0]) / field.width };
}

/** The cell that a token falls into where a range is split into so many cells at n·cell/cells, rounded down. */
export function cellOf(at: number, [start, end]: [number, number], cells: number): number {
  return Math.floor(((at - start + 1) * cells - 1) / (end - start));
}

/** The number of a field that covers this pair of tokens. */
export function weightAt(field: Field, row: number, column: number): number {
  const [r, c] = [cellOf(row, field.rows, field.height), cellOf(column, field.columns, field.width)];
  return r >= 0 && c >= 0 && r < field.height && c < field.width ? field.weights[r * field.width + c] : 0;
}

export function paintField(context: CanvasRenderingContext2D, scale: number, picture: FieldPicture, colours: Palette): void {
  const { field, window, side } = picture;
  const unit = (side / window.span) * grain(field).across;
  context.clearRect(0, 0, side * scale, side * scale);
  if (unit >= 4) paintCells(context, scale, picture, colours, unit);
  else paintPixels(context, scale, picture, colours);
}

function blank(picture: FieldPicture, row: number, column: number): boolean {
  const { field } = picture;
  const { down, across } = grain(field);
  return picture.causal && Math.floor(field.columns[0] + column * across) > Math.ceil(field.rows[0] + (row + 1) * down) - 1;
}

function shown(picture: FieldPicture, row: number, column: number): number {
  if (picture.aside && picture.field.columns[0] + column === 0) return 0;
  return picture.field.weights[row * picture.field.width + column] / picture.top;
}

function paintCells(context: CanvasRenderingContext2D, scale: number, picture: FieldPicture, colours: Palette, unit: number): void {
  const { field, window, side } = picture;
  const gap = unit >= 8 ? scale : 0;
  const edge = (start: number, offset: number, k: number) => Math.round((((start - offset) * side) / window.span + k * unit) * scale);
  for (let row = 0; row < field.height; row++) {
    const y = edge(field.rows[0], window.row, row);
    const height = edge(field.rows[0], window.row, row + 1) - y - gap;
    if (y + height < 0 || y > side * scale) continue;
    for (let column = 0; column < field.width; column++) {
      if (blank(picture, row, column)) continue;
      const x = edge(field.columns[0], window.column, column);
      context.fillStyle = css(weightColour(colours, shown(picture, row, column)));
      context.fillRect(x, y, edge(field.columns[0], window.column, column + 1) - x - gap, height);
    }
  }
}

function paintPixels(context: CanvasRenderingContext2D, scale: number, picture: FieldPicture, colours: Palette): void {
  const { field, window, side } = picture;
  const image = new ImageData(field.width, field.height);
  const pixels = new Uint32Array(image.data.buffer);
  const ramp = Uint32Array.from({ length: 1024 }, (_, k) => pixel(weightColour(colours, (k / 1023) ** 2)));
  for (let row = 0; row < field.height; row++)
    for (let column = 0; column < field.width; column++)
      if (!blank(picture, row, column))
        pixels[row * field.width + column] = ramp[Math.round(Math.sqrt(Math.min(1, shown(picture, row, column))) * 1023)];
  const small = new OffscreenCanvas(field.width, field.height);
  small.getContext("2d")!.putImageData(image, 0, 0);
  const place = (start: number, offset: number) => ((start - offset) * side * scale) / window.span;
  const size = ([start, end]: [number, number]) => ((end - start) * side * scale) / window.span;
  context.imageSmoothingEnabled = size(field.columns) < field.width;
  context.drawImage(small, place(field.columns[0], window.column), place(field.rows[0], window.row), size(field.columns), size(field.rows));
}
