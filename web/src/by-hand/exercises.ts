// The exercise of By hand: invent two heads for "it"; what is checked of them.
import { Problem } from "../source/problem";
import { readings } from "../learn/typed-numbers";
import { shortNumber, vector, weigh } from "./scorecard";

type Card = Record<string, number>;
type Values = Record<string, number[]>;

export interface Remark {
  about: string;
  right: boolean;
  says: string;
}

export interface Checked {
  remarks: Remark[];
}

/** Two scorecards, and what was worked out from them; what is left empty is not checked. */
export interface Invented {
  heads: Card[];
  values?: Values;
  sums?: string[];
  concatenated?: string;
  attempt?: number; // a wrong sum gets a hint at the first, its arithmetic at the next
}

const ROUNDING = 0.005; // answers may be rounded to two digits

export const EXERCISE = {
  sentence: "The horse crossed the road because it was tired",
  reader: "it",
  referent: "horse",
  attribute: "tired",
  values: {
    horse: [0.8, 0.1, 0, 0.2],
    road: [0.1, 0.7, 0.1, 0],
    because: [0.2, 0.2, 0.6, 0.1],
    was: [0.1, 0.1, 0.2, 0.8],
    tired: [0.3, 0.6, 0.1, 0.2],
  } as Values,
};

/** Rows that sum to 1, heads that find different words, and each sum that was given. */
export function checkInvented(asked: Invented): Checked {
  const values = asked.values ?? EXERCISE.values;
  const { attempt = 1, sums = [], concatenated = "" } = asked;
  const remarks = [
    ...asked.heads.map((card, at) => shares(at + 1, card)),
    winners(asked.heads),
    ...sums.flatMap((answer, at) =>
      answer.trim() ? [sumOf(at + 1, asked.heads[at], values, { answer: parseNumbers(answer), attempt })] : [],
    ),
    ...(concatenated.trim() ? [endToEnd(asked.heads, values, parseNumbers(concatenated))] : []),
  ];
  return { remarks };
}

function shares(index: number, card: Card): Remark {
  const about = `head ${index}: shares`;
  const below = Object.keys(card).find((word) => card[word] < 0);
  const total = Object.values(card).reduce((sum, share) => sum + share, 0);
  if (below !== undefined)
    return { about, right: false, says: `${below} has ${shortNumber(card[below])}; softmax never gives less than 0.` };
  if (Math.abs(total - 1) <= ROUNDING) return { about, right: true, says: "They add up to 1." };
  const much = total > 1 ? "too much" : "too little";
  return {
    about,
    right: false,
    says: `They add up to ${shortNumber(total)}, ${much}: a head shares out exactly 1.`,
  };
}

const strongest = (card: Card) => Object.keys(card).reduce((best, word) => (card[word] > card[best] ? word : best));

function winners(cards: Card[]): Remark {
  const { reader, referent, attribute } = EXERCISE;
  const about = "two different questions";
  const [first, second] = cards.map(strongest);
  const found = new Set([first, second]);
  if (found.has(referent) && found.has(attribute))
    return { about, right: true, says: `One head reads ${referent} most, the other ${attribute}.` };
  const says =
    first === second
      ? `Both heads read ${first} most: the second tells you nothing new. Let one look for whom “${reader}” means, and the other for what is said of it.`
      : `They read ${first} and ${second} most; one should find whom “${reader}” means (${referent}), the other what is said of it (${attribute}).`;
  return { about, right: false, says };
}

function sumOf(
  index: number,
  card: Card,
  values: Values,
  { answer, attempt }: { answer: number[]; attempt: number },
): Remark {
  const [truth, about] = [weigh(card, values), `head ${index}: sum`];
  const wrong = (says: string): Remark => ({ about, right: false, says });
  if (answer.length !== truth.length)
    return wrong(`A value has ${truth.length} numbers, so the sum has too; you gave ${answer.length}.`);
  const column = truth.findIndex((number, at) => !(Math.abs(answer[at] - number) <= ROUNDING));
  if (column < 0) return { about, right: true, says: `o${index} = ${vector(truth)}.` };
  const term = (word: string) => `${shortNumber(card[word])}·${shortNumber(values[word][column])}`;
  const [place, given] = [column + 1, shortNumber(answer[column])];
  if (attempt <= 1) {
    const word = strongest(card);
    return wrong(
      `Number ${place} is not ${given}. Take number ${place} of every value times the word's share, and add: ${word} alone gives ${term(word)}.`,
    );
  }
  const terms = Object.keys(values).filter((word) => card[word]);
  return wrong(
    `Number ${place} is ${terms.map(term).join(" + ") || "0"} = ${shortNumber(truth[column])}, not ${given}.`,
  );
}

function endToEnd(cards: Card[], values: Values, answer: number[]): Remark {
  const about = "concatenation";
  const [first, second] = cards.map((card) => weigh(card, values));
  const [wide, both] = [first.length, [...first, ...second]];
  const wrong = (says: string): Remark => ({ about, right: false, says });
  if (close(answer, both)) return { about, right: true, says: `End to end: ${vector(both)}.` };
  if (close(answer, [...second, ...first]))
    return wrong("The two are there, but in the other order: head 1 comes first.");
  if (answer.length === wide)
    return wrong(
      `It has ${2 * wide} numbers, not ${wide}. You have added or averaged them; concatenation adds nothing: it lays them end to end.`,
    );
  if (answer.length !== 2 * wide)
    return wrong(`It has ${2 * wide} numbers, ${wide} of each head; you gave ${answer.length}.`);
  const [half, head] = close(answer.slice(0, wide), first) ? ["second", 2] : ["first", 1];
  return wrong(`The ${half} half is not the output of head ${head}. Check that sum.`);
}

/** `.62 .19`, `(0.62, 0.19)`, `0,62 0,19` or `62 % 19/100`. */
function parseNumbers(text: string): number[] {
  const plain = text
    .replace(/^[ ()[\]\n\t]+|[ ()[\]\n\t]+$/g, "")
    .replace(/\s+%/g, "%")
    .replace(/\s*\/\s*/g, "/");
  const items = /\s|;/.test(plain) ? plain.split(/[\s;]+/) : plain.split(",");
  const found = items.map((item) => item.replace(/^,+|,+$/g, "")).filter(Boolean);
  const numbers = found.flatMap((item) => readings(item).slice(0, 1));
  if (!numbers.length || numbers.length !== found.length)
    throw new Problem("InputError", `could not read '${text}' as numbers; write them like this: .62 .19 .085 .21`);
  return numbers;
}

const close = (answer: number[], truth: number[]) =>
  answer.length === truth.length && answer.every((each, at) => Math.abs(each - truth[at]) <= ROUNDING);
