// Where a head's attention goes on a text, divided into classes of keys: what heads/questions/where.py computes.
import type { Tile, TokenCard } from "../../source/source";
import { words } from "../../words/words";

const FITTINGS = 30;
const END = /^(?:[.!?…]+["'”’)\]]*|[。！？]+)$/u;
const SIGNS = /^[^\p{L}\p{N}]+$/u;
const ADDED = /^(?:\[[A-Z]+\]|<\|?[^<>\s]+\|?>)$/u;

/** What a class gets; alone: whatever classes come before it; blind: from a head that attends by distance only. */
export interface ClassShare {
  name: string;
  share: number;
  alone: number;
  blind: number;
}

type Fits = (query: number, key: number) => boolean;

/** The cells of each class, in the order in which they are tried. */
function classesOf(tokens: TokenCard[], causal: boolean): [string, Fits][] {
  const names = words.head.where.classes;
  const any = causal ? "" : "_any";
  const texts = tokens.map(({ text }) => text.trim());
  const end = tokens.map(({ text }, at) => text.includes("\n") || END.test(texts[at]));
  const same = (a: number, b: number) => b >= 0 && tokens[a].id === tokens[b].id;
  const other: Fits = (i, j) => (causal ? j < i : j !== i);
  const far = (least: number, most: number): Fits => {
    return (i, j) => Math.abs(i - j) >= least && Math.abs(i - j) <= most;
  };
  const ahead: [string, Fits][] = [
    [names.next, (i, j) => j === i + 1],
    [names.near_ahead, (i, j) => j >= i + 2 && j <= i + 4],
    [names.special, (_, j) => ADDED.test(texts[j])],
  ];
  return [
    [names.first, (_, j) => j === 0],
    [names.itself, (i, j) => i === j],
    [names[`followed${any}`], (i, j) => same(i, j - 1) && other(i, j) && j !== i + 1],
    [names[`copy${any}`], (i, j) => same(i, j) && other(i, j)],
    [names.previous, (i, j) => j === i - 1],
    [names.near, (i, j) => j <= i - 2 && j >= i - 4],
    ...(causal ? [] : ahead),
    [names.end, (_, j) => end[j]],
    [names.signs, (_, j) => SIGNS.test(texts[j]) && !end[j]],
    [names.far, far(5, 16)],
    [names.farther, far(17, 64)],
    [names.farthest, far(65, Infinity)],
  ];
}

/** The shares of all rows, but the first of causal attention, which has one key; with those of a sink they add up to 1. */
export function divide(tokens: TokenCard[], causal: boolean, { weights, height, width }: Tile): ClassShare[] {
  const classes = classesOf(tokens, causal);
  const found = classes.map(([name]): ClassShare => ({ name, share: 0, alone: 0, blind: 0 }));
  const begin = causal ? 1 : 0;
  const rows = height - begin;
  const kinds = new Uint8Array(height * width);
  const seen = new Float64Array(height + width); // by distance
  const rest = new Float64Array(height); // of each row, without the first key
  const each = (visit: (row: number, key: number) => void, row: number) => {
    for (let key = 1; key <= (causal ? row : width - 1); key++) visit(row, key);
  };
  for (let row = begin; row < height; row++) {
    const first = weights[row * width] / rows;
    found[0].share += first;
    found[0].blind += first;
    each((i, j) => {
      const weight = weights[i * width + j];
      const fits = classes.map(([, fit]) => fit(i, j));
      fits.forEach((fitting, at) => (found[at].alone += fitting ? weight / rows : 0));
      found[(kinds[i * width + j] = fits.indexOf(true))].share += weight / rows;
      seen[width + i - j] += weight;
      rest[i] += weight;
    }, row);
  }
  for (const part of [found[0], ...found.slice(-3)]) part.alone = part.share; // what goes elsewhere is in no other class
  // weights by distance that give each distance what the head gives it: iterative proportional fitting
  let profile = seen;
  const spread = (to: (row: number, key: number, weight: number) => void) => {
    for (let row = begin; row < height; row++) {
      let sum = 1e-12;
      each((i, j) => (sum += profile[width + i - j]), row);
      each((i, j) => to(i, j, (rest[i] * profile[width + i - j]) / sum), row);
    }
  };
  for (let round = 0; round < FITTINGS; round++) {
    const made = new Float64Array(seen.length);
    spread((i, j, weight) => (made[width + i - j] += weight));
    profile = profile.map((weight, at) => (made[at] > 1e-12 ? (weight * seen[at]) / made[at] : 0));
  }
  spread((i, j, weight) => (found[kinds[i * width + j]].blind += weight / rows));
  const sink = 1 - found.reduce((sum, { share }) => sum + share, 0);
  if (sink > 1e-3) found.push({ name: words.head.where.classes.sink, share: sink, alone: sink, blind: sink });
  return found;
}
