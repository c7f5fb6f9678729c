// The strongest pairs of writers: which of them are drawn, and what they leave out.
import type { Why, WriterShare } from "../../source/source";

export const FEW = 8; // writers of each side that are shown at first
export const MOST = 32; // writers of each side whose pairs are known

export interface Rows {
  q: WriterShare[];
  k: WriterShare[];
}

export interface Pair {
  a: number; // row of the writer that asked
  b: number; // row of the writer that answered
  value: number;
}

export interface Pairs {
  all: Pair[]; // the strongest first
  drawn: Pair[];
  least: number; // from which size on a pair is drawn
  largest: number; // of the writers
  sum: number; // of the drawn ones
  cancel: boolean; // whether those that are not drawn are large, and cancel
}

/** The first writers of each side. */
export const firstRows = (why: Why, most: number): Rows => ({
  q: why.asked.slice(0, most),
  k: why.answered.slice(0, most),
});

export function pairsOf(why: Why, rows: Rows): Pairs {
  const largest = Math.max(1e-9, ...[...rows.q, ...rows.k].map((share) => Math.abs(share.value)));
  const all = rows.q
    .flatMap((_, a) => rows.k.map((_, b) => ({ a, b, value: why.pairs[a]?.[b] ?? 0 })))
    .sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
  const least = Math.max(0.1, largest * 0.03);
  const drawn = all.filter(({ value }) => Math.abs(value) >= least);
  const size = drawn.reduce((sum, { value }) => sum + Math.abs(value), 0);
  return {
    all,
    drawn,
    least,
    largest,
    sum: drawn.reduce((sum, { value }) => sum + value, 0),
    cancel: why.pairs_size - size > Math.abs(why.total) / 2,
  };
}

/** Those of one side that are not shown. */
export function others(why: Why, rows: Rows, side: "q" | "k"): { count: number; sum: number } {
  const left = (side === "q" ? why.asked : why.answered).slice(rows[side].length);
  return { count: left.length, sum: left.reduce((sum, share) => sum + share.value, 0) };
}
