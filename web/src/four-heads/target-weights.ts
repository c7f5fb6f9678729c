// How the attention of one word is shared out among those it should read: every row adds up to one. Pure.
import type { Arrow, Wish } from "./targets";

/** A painted cell and its share of its row. */
export interface Cell {
  from: number;
  to: number;
  share: number;
}

const LEAST = 0.01; // a smaller share is none
const EVEN = 0.002; // shares closer than this are equal

const rowOf = (cells: Cell[], from: number) => cells.filter((cell) => cell.from === from);
const sum = (cells: Cell[]) => cells.reduce((total, cell) => total + cell.share, 0);

export function cellsOf({ arrows, shares }: Wish): Cell[] {
  const count = (from: number) => arrows.filter((arrow) => arrow[0] === from).length;
  return arrows.map(([from, to], at) => ({ from, to, share: shares[at] ?? 1 / count(from) }));
}

/** The wish with these cells: in order, every row adding up to one, and no shares where all rows are equal anyway. */
export function wishOf(wish: Wish, cells: Cell[]): Wish {
  const kept = cells.filter((cell) => cell.share >= LEAST).sort((a, b) => a.from - b.from || a.to - b.to);
  const whole = kept.map((cell) => ({ ...cell, share: cell.share / sum(rowOf(kept, cell.from)) }));
  const equal = whole.every((cell) => Math.abs(cell.share - 1 / rowOf(whole, cell.from).length) < EVEN);
  return { ...wish, arrows: whole.map(({ from, to }): Arrow => [from, to]), shares: equal ? [] : whole.map((cell) => Number(cell.share.toFixed(4))) };
}

/** Shares as somebody wrote them. A row that does not add up to one is left as it is, for the program to refuse in words. */
export function written(wish: Wish, arrows: Arrow[], shares: number[]): Wish {
  const said = { ...wish, arrows, shares };
  const cells = cellsOf(said);
  return cells.every((cell) => Math.abs(sum(rowOf(cells, cell.from)) - 1) <= 0.01) ? wishOf(wish, cells) : said;
}

/** What a row wants, in order. */
export function wantedOf(wish: Wish, from: number): Cell[] {
  return rowOf(cellsOf(wish), from);
}

export function shareOf(wish: Wish, from: number, to: number): number {
  return wantedOf(wish, from).find((cell) => cell.to === to)?.share ?? 0;
}

/** With this cell, or without it; the others of its row make room, or take its part. A causal head cannot look ahead. */
export function painted(wish: Wish, from: number, to: number, on: boolean): Wish {
  const cells = cellsOf(wish);
  if (to > from || cells.some((cell) => cell.from === from && cell.to === to) === on) return wish;
  if (!on) return wishOf(wish, cells.filter((cell) => cell.from !== from || cell.to !== to));
  const others = rowOf(cells, from).length;
  return wishOf(wish, [...cells, { from, to, share: others ? 1 / others : 1 }]);
}

/** This cell with that share; the rest goes to the others of its row as they had it, and if there are none it rests on the first word. */
export function shared(wish: Wish, from: number, to: number, share: number): Wish {
  if (to > from) return wish;
  const wanted = Math.max(0, Math.min(1, share));
  const cells = cellsOf(wish);
  const others = rowOf(cells, from).filter((cell) => cell.to !== to);
  const rest = others.length ? others : to > 0 ? [{ from, to: 0, share: 1 }] : [];
  const left = rest.map((cell) => ({ ...cell, share: (cell.share / sum(rest)) * (1 - wanted) }));
  return wishOf(wish, [...cells.filter((cell) => cell.from !== from), { from, to, share: rest.length ? wanted : 1 }, ...left]);
}
