// The pattern that each head of Four heads should learn, from its arrows.
import { Problem } from "../source/problem";
import type { Target } from "./targets";

export interface Wanted {
  rows: Float64Array; // [query, key], each row sums to 1
  finds: boolean[]; // which rows have a target; the others attend to the first word
}

const refuse = (says: string) => new Problem("InputError", says);

export function wantedPattern(
  { name, arrows, shares }: Pick<Target, "name" | "arrows" | "shares">,
  words: string[],
): Wanted {
  const length = words.length;
  const rows = new Float64Array(length * length);
  arrows.forEach(([from, to], at) => {
    if (from >= length || to >= length)
      throw refuse(`${name}: the arrow ${from} → ${to} is outside the words 0–${length - 1}`);
    if (to > from)
      throw refuse(
        `${name}: '${words[from]}' (${from}) cannot attend ahead to '${words[to]}' (${to}): point the arrow back`,
      );
    rows[from * length + to] = shares.length ? shares[at] : 1;
  });
  const finds = words.map((word, query) => {
    const row = rows.subarray(query * length, (query + 1) * length);
    const total = row.reduce((sum, share) => sum + share, 0);
    if (shares.length) checkRow(name, `'${word}' (${query})`, row, total);
    if (total > 0) row.forEach((share, key) => (row[key] = share / total));
    else row[0] = 1;
    return total > 0;
  });
  return { rows, finds };
}

function checkRow(name: string, word: string, row: Float64Array, total: number): void {
  if (row.some((share) => !(share >= 0)))
    throw refuse(
      `${name}: the row of ${word} holds [${row.join(", ")}]; shares are numbers from 0 to 1, as in 0 .5 .5 0`,
    );
  if (total > 0 && Math.abs(total - 1) > 0.01) {
    const way = total > 1.01 ? "two full weights need two heads" : "give more, or leave the whole row empty";
    throw refuse(
      `${name}: the row of ${word} adds up to ${Number(total.toPrecision(6))}; a softmax row sums to exactly 1, as in 0 .5 .5 0: ${way}`,
    );
  }
}
