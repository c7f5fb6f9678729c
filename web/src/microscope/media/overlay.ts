// Attention over a picture or sound: cells of a grid with their weights.
import type { PatchGrid, Pixels } from "../../source/source";

/** Which part of the picture is shown: its middle, and how many times it is enlarged. */
export interface Zoom {
  x: number;
  y: number;
  times: number;
}

export const WHOLE_PICTURE: Zoom = { x: 0.5, y: 0.5, times: 1 };
const MOST_TIMES = 16;
const VEIL = 0.9; // how much of a patch that is not read is hidden

/** The corner of what is shown, as a share of the whole. */
export function corner(zoom: Zoom): { left: number; top: number } {
  return { left: zoom.x - 0.5 / zoom.times, top: zoom.y - 0.5 / zoom.times };
}

/** Enlarged about a point given as shares of what is shown, which stays where it is. */
export function zoomed(zoom: Zoom, factor: number, across: number, down: number): Zoom {
  const times = Math.max(1, Math.min(MOST_TIMES, zoom.times * factor));
  const { left, top } = corner(zoom);
  const half = 0.5 / times;
  const inside = (middle: number) => Math.max(half, Math.min(1 - half, middle));
  return {
    times,
    x: inside(left + across / zoom.times + (0.5 - across) / times),
    y: inside(top + down / zoom.times + (0.5 - down) / times),
  };
}

/** A place on what is shown, as shares of its width and height. */
export interface Point {
  across: number;
  down: number;
}

/** Enlarged and moved as two fingers have gone: what lay under each stays under it. */
export function pinched(zoom: Zoom, before: Point[], after: Point[]): Zoom {
  const middle = ([one, other]: Point[]) => ({
    across: (one.across + other.across) / 2,
    down: (one.down + other.down) / 2,
  });
  const apart = ([one, other]: Point[]) => Math.hypot(one.across - other.across, one.down - other.down);
  const [from, to] = [middle(before), middle(after)];
  const held = zoomed(zoom, apart(after) / Math.max(1e-6, apart(before)), from.across, from.down);
  return moved(held, from.across - to.across, from.down - to.down);
}

/** Moved by shares of what is shown. */
export function moved(zoom: Zoom, across: number, down: number): Zoom {
  const half = 0.5 / zoom.times;
  const inside = (middle: number) => Math.max(half, Math.min(1 - half, middle));
  return { ...zoom, x: inside(zoom.x + across / zoom.times), y: inside(zoom.y + down / zoom.times) };
}

/** The weights of a grid's patches within a line of weights; what is set aside counts as nothing. */
export function patchWeights(grid: PatchGrid, line: ArrayLike<number>, aside: number | null): Float32Array {
  return Float32Array.from({ length: grid.rows * grid.columns }, (_, at) =>
    grid.first + at === aside ? 0 : (line[grid.first + at] ?? 0),
  );
}

/** How much of the paper lies over a patch: none over the strongest. */
export function veil(weight: number, top: number): number {
  return VEIL * (1 - Math.sqrt(Math.max(0, Math.min(1, top > 0 ? weight / top : 0))));
}

/** The patch of a grid that a step with an arrow key leads to; the place itself at an edge. */
export function neighbourPatch(grid: PatchGrid, position: number, key: string): number | null {
  const at = position - grid.first;
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
  if (!step) return null;
  if (at < 0 || at >= grid.rows * grid.columns) return grid.first;
  const row = Math.max(0, Math.min(grid.rows - 1, Math.floor(at / grid.columns) + step[0]));
  const column = Math.max(0, Math.min(grid.columns - 1, (at % grid.columns) + step[1]));
  return grid.first + row * grid.columns + column;
}

/** A picture's pixels on a canvas of their own size. */
export function canvasOf({ width, height, bytes }: Pixels): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const image = new ImageData(width, height);
  for (let at = 0; at < width * height; at++) {
    image.data.set(bytes.subarray(3 * at, 3 * at + 3), 4 * at);
    image.data[4 * at + 3] = 255;
  }
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}
