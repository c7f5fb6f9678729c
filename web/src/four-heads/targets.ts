// What a person wants of four heads: a sentence, and for each head arrows between its words. Pure.
import type { components } from "../api";
import { cellsOf, wishOf, type Cell } from "./target-weights";

export type Arrow = [number, number]; // from, to
/** `shares`: one for each arrow, or none where the arrows of every row share it equally. */
export type Wish = Required<components["schemas"]["TargetCard"]> & { arrows: Arrow[] };

export interface State {
  sentence: string | null; // null: the first sentence and its own targets
  wishes: Wish[];
  dHead: number;
  steps: number;
  places: boolean;
  word: number | null;
}

export const HEADS = 4;
export const BEGINNING: State = { sentence: null, wishes: [], dHead: 8, steps: 120, places: true, word: null };

export function has(arrows: Arrow[], from: number, to: number): boolean {
  return arrows.some((arrow) => arrow[0] === from && arrow[1] === to);
}

/** Where the words of an old sentence stand in a new one: what both begin and end with, and words changed one for one. */
export function places(before: string[], after: string[]): (number | null)[] {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const oneForOne = before.length === after.length;
  return before.map((_, at) => {
    if (oneForOne || at < head) return at;
    return at >= before.length - tail ? at + after.length - before.length : null;
  });
}

/** The same wishes for another sentence: an arrow goes along if both of its words do; "previous token" stays what it says. */
export function moved(wishes: Wish[], before: string[], after: string[]): Wish[] {
  const to = places(before, after);
  return wishes.map((wish) => {
    if (isPrevious(wish.arrows, before.length)) return { ...wish, arrows: previous(after.length), shares: [] };
    const cells = cellsOf(wish).map((cell) => ({ ...cell, from: to[cell.from] ?? -1, to: to[cell.to] ?? -1 }));
    return wishOf(wish, cells.filter((cell) => cell.from >= 0 && cell.to >= 0));
  });
}

function previous(length: number): Arrow[] {
  return Array.from({ length: length - 1 }, (_, at) => [at + 1, at]);
}

function isPrevious(arrows: Arrow[], length: number): boolean {
  return arrows.length === length - 1 && previous(length).every(([from, to]) => has(arrows, from, to));
}

/** Four wishes, whatever there were; a head without arrows rests on the first word. */
export function four(wishes: Wish[]): Wish[] {
  return Array.from({ length: HEADS }, (_, at) => wishes[at] ?? { name: `Head ${at + 1}`, asks: "", arrows: [], shares: [] });
}

/** Arrows as a person writes them: crossed > horse, the@4 > The; where the shares of a row differ, it > horse .8. */
export function spelled(wish: Wish, words: string[]): string {
  const name = (at: number) => (words.filter((word) => word === words[at]).length > 1 ? `${words[at]}@${at}` : words[at]);
  return wish.arrows.map(([from, to], at) => `${name(from)} > ${name(to)}${wish.shares.length ? ` ${wish.shares[at]}` : ""}`).join(", ");
}

export function write(state: State): string {
  const fields = new URLSearchParams({ v: "1" });
  if (state.sentence !== null) {
    fields.set("s", state.sentence);
    for (const wish of state.wishes) fields.append("h", [wish.name, wish.asks, arrowsIn(wish)].join("|"));
  }
  if (state.dHead !== BEGINNING.dHead) fields.set("d", String(state.dHead));
  if (state.steps !== BEGINNING.steps) fields.set("n", String(state.steps));
  if (!state.places) fields.set("p", "0");
  if (state.word !== null) fields.set("w", String(state.word));
  return `#four-heads?${fields}`;
}

/** "8>2 8>6", or with unequal shares "8>2=.8 8>6=.2". */
function arrowsIn({ arrows, shares }: Wish): string {
  return arrows.map(([from, to], at) => `${from}>${to}${shares.length ? `=${shares[at]}` : ""}`).join(" ");
}

function cellsIn(text: string): Cell[] {
  return text.split(" ").flatMap((each) => {
    const found = /^(\d+)>(\d+)(?:=(\d*\.?\d+))?$/.exec(each);
    return found ? [{ from: Number(found[1]), to: Number(found[2]), share: Number(found[3] ?? 1) }] : [];
  });
}

export function read(address: string): State {
  const fields = new URLSearchParams(address.split("?").slice(1).join("?"));
  const whole = (name: string, otherwise: number) => (/^\d+$/.test(fields.get(name) ?? "") ? Number(fields.get(name)) : otherwise);
  const wishes = fields.getAll("h").slice(0, HEADS).map((text): Wish => {
    const [name, asks = "", arrows = ""] = text.split("|");
    return wishOf({ name, asks, arrows: [], shares: [] }, cellsIn(arrows));
  });
  return {
    sentence: fields.get("s"),
    wishes: fields.get("s") === null ? [] : wishes,
    dHead: whole("d", BEGINNING.dHead),
    steps: whole("n", BEGINNING.steps),
    places: fields.get("p") !== "0",
    word: fields.has("w") ? whole("w", 0) : null,
  };
}
