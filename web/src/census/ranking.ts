// Order of the census table's rows, heads clearly above chance, and the end of its axis.

export interface Row {
  column: number; // of the arrays
  head: string;
  value: number;
}

/** Heads by one quantity; those without an answer come last, and equals keep the model's order. */
export function ranked(
  heads: string[],
  values: ArrayLike<number>,
  order: "up" | "down",
  size = (value: number) => value,
): Row[] {
  const rows = heads.map((head, column) => ({ column, head, value: values[column] }));
  const sign = order === "down" ? -1 : 1;
  return rows.sort((a, b) => {
    const [left, right] = [Number.isFinite(a.value), Number.isFinite(b.value)];
    if (!left || !right) return Number(right) - Number(left) || a.column - b.column;
    return sign * (size(a.value) - size(b.value)) || a.column - b.column;
  });
}

/** Shares run to 1 unless all are small; other units to the largest value there is. */
export function edgeOf(highs: ArrayLike<number>, unit: string): number {
  let most = 0;
  for (let k = 0; k < highs.length; k++) if (highs[k] > most) most = highs[k];
  if (unit !== "share") return most || 1;
  return most > 0.5 ? 1 : most > 0.2 ? 0.5 : most > 0.05 ? 0.2 : 0.05;
}

/** A head stands out of its null when the two intervals do not touch. */
export function clear(low: number, nullHigh: number): boolean {
  return Number.isFinite(low) && Number.isFinite(nullHigh) && low > nullHigh;
}

/** Whether there are values and none has an interval: those of one document. */
export const withoutIntervals = (values: ArrayLike<number>, lows: ArrayLike<number>): boolean =>
  Array.from(values).some(Number.isFinite) && !Array.from(lows).some(Number.isFinite);

export function headNames(sites: { name: string; n_heads: number }[]): string[] {
  return sites.flatMap((site) => Array.from({ length: site.n_heads }, (_, head) => `${site.name}.${head}`));
}
