// What a person wants of four heads: a sentence, and for each head arrows between its words. Pure.
import type { components } from "../api";

export type Arrow = [number, number]; // from, to
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

const same = (a: Arrow, b: Arrow) => a[0] === b[0] && a[1] === b[1];
const inOrder = (a: Arrow, b: Arrow) => a[0] - b[0] || a[1] - b[1];

export function has(arrows: Arrow[], from: number, to: number): boolean {
  return arrows.some((arrow) => same(arrow, [from, to]));
}

/** The arrows with this one, or without it. A causal head cannot look ahead, so such an arrow changes nothing. */
export function painted(arrows: Arrow[], from: number, to: number, on: boolean): Arrow[] {
  if (to > from || has(arrows, from, to) === on) return arrows;
  return on ? [...arrows, [from, to] as Arrow].sort(inOrder) : arrows.filter((arrow) => !same(arrow, [from, to]));
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
    if (isPrevious(wish.arrows, before.length)) return { ...wish, arrows: previous(after.length) };
    const arrows = wish.arrows.map(([from, end]) => [to[from] ?? -1, to[end] ?? -1] as Arrow);
    return { ...wish, arrows: arrows.filter(([from, end]) => from >= 0 && end >= 0) };
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
  return Array.from({ length: HEADS }, (_, at) => wishes[at] ?? { name: `Head ${at + 1}`, asks: "", arrows: [] });
}

/** Arrows as a person writes them: crossed > horse, the@4 > The. */
export function spelled(arrows: Arrow[], words: string[]): string {
  const name = (at: number) => (words.filter((word) => word === words[at]).length > 1 ? `${words[at]}@${at}` : words[at]);
  return arrows.map(([from, to]) => `${name(from)} > ${name(to)}`).join(", ");
}

export function write(state: State): string {
  const fields = new URLSearchParams({ v: "1" });
  if (state.sentence !== null) {
    fields.set("s", state.sentence);
    for (const { name, asks, arrows } of state.wishes) fields.append("h", [name, asks, arrows.map((arrow) => arrow.join(">")).join(" ")].join("|"));
  }
  if (state.dHead !== BEGINNING.dHead) fields.set("d", String(state.dHead));
  if (state.steps !== BEGINNING.steps) fields.set("n", String(state.steps));
  if (!state.places) fields.set("p", "0");
  if (state.word !== null) fields.set("w", String(state.word));
  return `#four-heads?${fields}`;
}

export function read(address: string): State {
  const fields = new URLSearchParams(address.split("?").slice(1).join("?"));
  const whole = (name: string, otherwise: number) => (/^\d+$/.test(fields.get(name) ?? "") ? Number(fields.get(name)) : otherwise);
  const wishes = fields.getAll("h").slice(0, HEADS).map((text): Wish => {
    const [name, asks = "", arrows = ""] = text.split("|");
    const pairs = arrows.split(" ").map((pair) => pair.split(">").map(Number)).filter((pair) => pair.length === 2 && pair.every(Number.isInteger));
    return { name, asks, arrows: pairs as Arrow[] };
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
