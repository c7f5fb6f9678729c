// Target patterns of the four heads as arrows between words, and the page's address.
import type { components } from "../api";
import { cellsOf, targetOf, type Cell } from "./target-weights";

export type Arrow = [number, number]; // from, to
/** `shares`: one for each arrow, or none where the arrows of every row share it equally. */
export type Target = Required<components["schemas"]["Target"]> & { arrows: Arrow[] };

export interface State {
  sentence: string | null; // null: the first sentence and its own targets
  targets: Target[];
  dHead: number;
  steps: number;
  places: boolean;
  word: number | null;
}

export const HEADS = 4;
export const INITIAL: State = { sentence: null, targets: [], dHead: 8, steps: 120, places: true, word: null };

export function hasArrow(arrows: Arrow[], from: number, to: number): boolean {
  return arrows.some((arrow) => arrow[0] === from && arrow[1] === to);
}

/** Positions of an old sentence's words in a new one: a common start and end, or words changed one for one. */
export function alignWords(before: string[], after: string[]): (number | null)[] {
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

/** The same targets for another sentence: arrows whose words both stay; a previous-token target is made anew. */
export function moveTargets(targets: Target[], before: string[], after: string[]): Target[] {
  const to = alignWords(before, after);
  return targets.map((target) => {
    if (isPrevious(target.arrows, before.length)) return { ...target, arrows: previous(after.length), shares: [] };
    const cells = cellsOf(target).map((cell) => ({ ...cell, from: to[cell.from] ?? -1, to: to[cell.to] ?? -1 }));
    return targetOf(
      target,
      cells.filter((cell) => cell.from >= 0 && cell.to >= 0),
    );
  });
}

/** A word that stands in the sentence more than once; capitals count, as they do for the heads. */
export function repeatedWord(words: string[]): string | null {
  return words.find((word, at) => words.indexOf(word) < at) ?? null;
}

/** Targets for a changed sentence: what moved along; for a head that lost all of its arrows, what was guessed. */
export function withGuesses(moved: Target[], guessed: Target[]): Target[] {
  return moved.map((target, at) => (target.arrows.length ? target : (guessed[at] ?? target)));
}

function previous(length: number): Arrow[] {
  return Array.from({ length: length - 1 }, (_, at) => [at + 1, at]);
}

function isPrevious(arrows: Arrow[], length: number): boolean {
  return arrows.length === length - 1 && previous(length).every(([from, to]) => hasArrow(arrows, from, to));
}

/** Four targets, whatever there were; a head without arrows rests on the first word. */
export function padToFour(targets: Target[]): Target[] {
  return Array.from(
    { length: HEADS },
    (_, at) => targets[at] ?? { name: `Head ${at + 1}`, asks: "", arrows: [], shares: [] },
  );
}

/** Arrows as a person writes them: crossed > horse, the@4 > The; where the shares of a row differ, it > horse .8. */
export function arrowText(target: Target, words: string[]): string {
  const name = (at: number) =>
    words.filter((word) => word === words[at]).length > 1 ? `${words[at]}@${at}` : words[at];
  return target.arrows
    .map(([from, to], at) => `${name(from)} > ${name(to)}${target.shares.length ? ` ${target.shares[at]}` : ""}`)
    .join(", ");
}

export function writeAddress(state: State): string {
  const fields = new URLSearchParams({ v: "1" });
  if (state.sentence !== null) {
    fields.set("s", state.sentence);
    for (const target of state.targets) fields.append("h", [target.name, target.asks, writeArrows(target)].join("|"));
  }
  if (state.dHead !== INITIAL.dHead) fields.set("d", String(state.dHead));
  if (state.steps !== INITIAL.steps) fields.set("n", String(state.steps));
  if (!state.places) fields.set("p", "0");
  if (state.word !== null) fields.set("w", String(state.word));
  return `#four-heads?${fields}`;
}

/** "8>2 8>6", or with unequal shares "8>2=.8 8>6=.2". */
function writeArrows({ arrows, shares }: Target): string {
  return arrows.map(([from, to], at) => `${from}>${to}${shares.length ? `=${shares[at]}` : ""}`).join(" ");
}

function readCells(text: string): Cell[] {
  return text.split(" ").flatMap((each) => {
    const found = /^(\d+)>(\d+)(?:=(\d*\.?\d+))?$/.exec(each);
    return found ? [{ from: Number(found[1]), to: Number(found[2]), share: Number(found[3] ?? 1) }] : [];
  });
}

export function readAddress(address: string): State {
  const fields = new URLSearchParams(address.split("?").slice(1).join("?"));
  const whole = (name: string, otherwise: number) =>
    /^\d+$/.test(fields.get(name) ?? "") ? Number(fields.get(name)) : otherwise;
  const targets = fields
    .getAll("h")
    .slice(0, HEADS)
    .map((text): Target => {
      const [name, asks = "", arrows = ""] = text.split("|");
      return targetOf({ name, asks, arrows: [], shares: [] }, readCells(arrows));
    });
  return {
    sentence: fields.get("s"),
    targets: fields.get("s") === null ? [] : targets,
    dHead: Math.max(1, Math.min(32, whole("d", INITIAL.dHead))),
    steps: Math.max(1, Math.min(1000, whole("n", INITIAL.steps))),
    places: fields.get("p") !== "0",
    word: fields.has("w") ? whole("w", 0) : null,
  };
}
