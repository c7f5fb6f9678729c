// Attention weights that add up to 1 when one of them is moved, and short numbers.
import { words } from "../words/words";

export type Weights = Record<string, number>;

const round = (value: number) => Math.round(value * 1000) / 1000;

export function total(card: Weights): number {
  return round(Object.values(card).reduce((sum, share) => sum + share, 0));
}

/** One share set, and the others moved so that all add up to 1 again, in the proportions they had. */
export function withWeight(card: Weights, word: string, value: number): Weights {
  const mine = round(Math.max(0, Math.min(1, value)));
  const others = Object.keys(card).filter((other) => other !== word);
  const before = others.reduce((sum, other) => sum + card[other], 0);
  const moved: Weights = {};
  for (const name of Object.keys(card))
    moved[name] = name === word ? mine : round((1 - mine) * (before > 0 ? card[name] / before : 1 / others.length));
  if (!others.length) return moved;
  const most = others.reduce((best, other) => (moved[other] > moved[best] ? other : best), others[0]);
  moved[most] = round(Math.max(0, moved[most] + 1 - total(moved)));
  return moved;
}

/** Every share in the same proportion, together 1. */
export function normalised(card: Weights): Weights {
  const positive = Object.fromEntries(Object.entries(card).map(([word, share]) => [word, Math.max(0, share)]));
  const first = Object.keys(positive)[0];
  const sum = Object.values(positive).reduce((all, share) => all + share, 0);
  if (sum <= 0) return withWeight(positive, first, 1 / Object.keys(positive).length);
  return withWeight(
    Object.fromEntries(Object.entries(positive).map(([word, share]) => [word, share / sum])),
    first,
    positive[first] / sum,
  );
}

/** .62, −.5, 3, 0: at most so many digits, and no more than there are. */
export function shortNumber(value: number, digits = 3): string {
  const text = value.toFixed(digits).replace(/\.?0+$/, "");
  if (text === "-0" || text === "") return "0";
  return text
    .replace(/^(-?)0\./, "$1.")
    .replace("-", "−")
    .replace(".", words.ui.decimal);
}

/** What somebody typed as a number, .3, 0,3, 30 % or 3/10; null where it is none. */
export function parseNumber(text: string): number | null {
  const plain = text.replace("−", "-").replaceAll(",", ".").replace(/\s+/g, "");
  const found = /^(-?(?:\d+\.?\d*|\.\d+))(?:\/(\d+\.?\d*|\.\d+))?(%?)$/.exec(plain);
  if (!found) return null;
  const value = Number(found[1]) / Number(found[2] ?? 1) / (found[3] ? 100 : 1);
  return Number.isFinite(value) ? value : null;
}
