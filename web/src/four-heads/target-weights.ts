// Target attention weights of a head, row by row; each row adds up to 1.
import type { Arrow, Target } from "./targets";

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

export function cellsOf({ arrows, shares }: Target): Cell[] {
  const count = (from: number) => arrows.filter((arrow) => arrow[0] === from).length;
  return arrows.map(([from, to], at) => ({ from, to, share: shares[at] ?? 1 / count(from) }));
}

/** The target with these cells: in order, every row adding up to one, and no shares where all rows are equal anyway. */
export function targetOf(target: Target, cells: Cell[]): Target {
  const kept = cells.filter((cell) => cell.share >= LEAST).sort((a, b) => a.from - b.from || a.to - b.to);
  const whole = kept.map((cell) => ({ ...cell, share: cell.share / sum(rowOf(kept, cell.from)) }));
  const equal = whole.every((cell) => Math.abs(cell.share - 1 / rowOf(whole, cell.from).length) < EVEN);
  return {
    ...target,
    arrows: whole.map(({ from, to }): Arrow => [from, to]),
    shares: equal ? [] : whole.map((cell) => Number(cell.share.toFixed(4))),
  };
}

/** Typed arrows and weights. A row that does not add up to 1 is kept, for the server to refuse with a reason. */
export function writtenTarget(target: Target, arrows: Arrow[], shares: number[]): Target {
  const said = { ...target, arrows, shares };
  const cells = cellsOf(said);
  return cells.every((cell) => Math.abs(sum(rowOf(cells, cell.from)) - 1) <= 0.01) ? targetOf(target, cells) : said;
}

/** What a row wants, in order. */
export function targetRow(target: Target, from: number): Cell[] {
  return rowOf(cellsOf(target), from);
}

export function weightOf(target: Target, from: number, to: number): number {
  return targetRow(target, from).find((cell) => cell.to === to)?.share ?? 0;
}

/** With this cell, or without it; the rest of its row is rescaled. A causal head cannot attend ahead. */
export function withCell(target: Target, from: number, to: number, on: boolean): Target {
  const cells = cellsOf(target);
  if (to > from || cells.some((cell) => cell.from === from && cell.to === to) === on) return target;
  if (!on)
    return targetOf(
      target,
      cells.filter((cell) => cell.from !== from || cell.to !== to),
    );
  const others = rowOf(cells, from).length;
  return targetOf(target, [...cells, { from, to, share: others ? 1 / others : 1 }]);
}

/** This cell with that weight; the rest of its row is rescaled, or goes to the first word where there is none. */
export function withWeight(target: Target, from: number, to: number, share: number): Target {
  if (to > from) return target;
  const wanted = Math.max(0, Math.min(1, share));
  const cells = cellsOf(target);
  const others = rowOf(cells, from).filter((cell) => cell.to !== to);
  const rest = others.length ? others : to > 0 ? [{ from, to: 0, share: 1 }] : [];
  const left = rest.map((cell) => ({ ...cell, share: (cell.share / sum(rest)) * (1 - wanted) }));
  return targetOf(target, [
    ...cells.filter((cell) => cell.from !== from),
    { from, to, share: rest.length ? wanted : 1 },
    ...left,
  ]);
}
