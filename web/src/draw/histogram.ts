// Histogram of one score over all heads, and one head's rank in it.

export interface Histogram {
  bars: number[]; // heights 0 to 1, by the root of the count, so that one head is visible beside a hundred
  top: number; // the value at the right edge
}

export function histogram(values: ArrayLike<number>, top: number, bins = 60): Histogram {
  const counts = new Array<number>(bins).fill(0);
  for (let k = 0; k < values.length; k++)
    if (Number.isFinite(values[k])) counts[Math.max(0, Math.min(bins - 1, Math.floor((values[k] / top) * bins)))]++;
  const most = Math.sqrt(Math.max(1, ...counts));
  return { bars: counts.map((count) => Math.sqrt(count) / most), top };
}

/** Shares run to 1; other traits to a round number past the largest. */
export function axisEnd(values: ArrayLike<number>, unit: string): number {
  if (unit === "share") return 1;
  let largest = 0;
  for (let k = 0; k < values.length; k++) if (values[k] > largest) largest = values[k];
  return largest > 0 ? largest * 1.04 : 1;
}

/** 1 for the largest; heads without an answer do not count. */
export function rank(values: ArrayLike<number>, mine: number): number {
  let above = 0;
  for (let k = 0; k < values.length; k++) if (values[k] > mine) above++;
  return above + 1;
}
