// Positions on the axis of training, which frame was kept last, and the cells where a role would attend.
import { fixed } from "../format";

export interface Axis {
  left: number; // where the axis begins
  width: number; // how long it is
  wide: number; // of the whole drawing, labels at the right included
}

const EARLY = 900; // the axis is logarithmic from about a nine-hundredth of the run; before it little happens

/** How far along the axis, 0 to 1, a moment of a run of this length stands. */
export function axisPosition(tokens: number, last: number): number {
  return last > 0 ? Math.log1p((EARLY * tokens) / last) / Math.log1p(EARLY) : 0;
}

/** The moment that stands nearest to a place between 0 and 1. */
export function nearest(places: number[], expectedCells: number): number {
  let best = 0;
  for (let k = 1; k < places.length; k++)
    if (Math.abs(places[k] - expectedCells) < Math.abs(places[best] - expectedCells)) best = k;
  return best;
}

/** The last frame that was kept at or before a step. */
export function frameAt(frames: number[], step: number): number {
  let found = 0;
  for (let k = 0; k < frames.length; k++) if (frames[k] <= step) found = k;
  return found;
}

/** Nothing, and the last three powers of ten. */
export function ticks(last: number): number[] {
  const most = Math.floor(Math.log10(Math.max(1, last)));
  return [0, ...[most - 2, most - 1, most].filter((power) => power >= 0).map((power) => 10 ** power)];
}

/** 0, 66 k, 1.2 M, 27 M. */
export function formatTokens(tokens: number): string {
  if (tokens < 1000) return String(tokens);
  if (tokens < 1e6) return `${Math.round(tokens / 1e3)} k`;
  return `${fixed(tokens / 1e6, tokens < 9.95e6 && tokens % 1e6 ? 1 : 0)} M`;
}

/** The cells where a head that answers this question would look. */
export function expectedCells(question: string, tokens: string[]): [row: number, column: number][] {
  const cells: [number, number][] = [];
  for (let row = 0; row < tokens.length; row++)
    for (let column = 0; column <= row; column++)
      if (
        (question === "previous" && column === row - 1) ||
        (question === "itself" && column === row) ||
        (question === "first" && column === 0) ||
        (question === "duplicate" && column < row && tokens[column] === tokens[row]) ||
        (question === "induction" && column > 0 && column < row && tokens[column - 1] === tokens[row])
      )
        cells.push([row, column]);
  return cells;
}

/** Labels at the ends of lines: kept in order, and at least `apart` from each other within the edges. */
export function spreadLabels(wanted: number[], apart: number, least: number, most: number): number[] {
  const order = wanted.map((_, k) => k).sort((a, b) => wanted[a] - wanted[b]);
  const found = [...wanted];
  order.forEach((k, rank) => (found[k] = Math.max(found[k], rank ? found[order[rank - 1]] + apart : least)));
  for (let rank = order.length - 1; rank >= 0; rank--) {
    const room = rank === order.length - 1 ? most : found[order[rank + 1]] - apart;
    found[order[rank]] = Math.min(found[order[rank]], room);
  }
  return found;
}

export function linePath(xs: number[], ys: (number | null)[]): string {
  let d = "";
  xs.forEach((x, k) => {
    const y = ys[k];
    if (y !== null && Number.isFinite(y)) d += `${d ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  return d;
}
