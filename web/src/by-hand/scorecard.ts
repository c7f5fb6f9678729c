// Numbers as they are written and read on a blackboard, and the sums of them.
import { words } from "../words/words";

export type Weights = Record<string, number>;

const round = (value: number) => Math.round(value * 1000) / 1000;

export function total(card: Weights): number {
  return round(Object.values(card).reduce((sum, share) => sum + share, 0));
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

/** z of a head: the sum of weight · value. */
export function weigh(weights: Weights, values: Record<string, number[]>): number[] {
  const rows = Object.entries(values);
  return rows[0][1].map((_, column) => rows.reduce((sum, [word, row]) => sum + weights[word] * row[column], 0));
}

export const vector = (values: number[]) => `(${values.map((value) => shortNumber(value)).join(" ")})`;

/** a·b + c·d …, without products that are zero. */
export function products(left: number[], right: number[]): string {
  const kept = left.flatMap((a, at) => (a && right[at] ? [`${shortNumber(a)}·${shortNumber(right[at])}`] : []));
  return kept.join(" + ") || "0";
}
