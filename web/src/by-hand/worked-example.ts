// The worked example of By hand, computed with the reader's changes, every line of arithmetic included.
import type { components } from "../api";
import { Problem } from "../source/problem";

export type Example = Required<components["schemas"]["WorkedExample"]>;
type Head = Example["heads"][number];
type Row = number[];

/** What one head computes; `products` are weight × value, one row per word: they sum to `delivered`, its z. */
interface HeadWork {
  query: Row;
  keys: Record<string, Row>;
  scores: Record<string, number>;
  weights: Record<string, number>;
  products: Record<string, Row>;
  delivered: Row;
}

interface Step {
  title: string;
  says: string;
  lines: string[];
}

export interface Worked extends Example {
  work: HeadWork[];
  concatenated: Row;
  through_identity: Row;
  mixed: Row;
  steps: Step[];
}

export function workedExample(example: Example): Worked {
  example.heads.forEach((head, index) => checkScorecard(`head ${index + 1}`, head.scorecard));
  const work = example.heads.map((head) => headWork(example, head));
  const concatenated = work.flatMap((each) => each.delivered);
  const mixed = times(concatenated, example.W_O);
  const steps = [
    ...example.heads.flatMap((head, at) => startSteps(example, at + 1, head, work[at])),
    ...example.heads.map((head, at) => weighStep(example, at + 1, head, work[at])),
    ...endSteps(example, concatenated, mixed),
  ];
  return { ...example, work, concatenated, through_identity: concatenated, mixed, steps };
}

function headWork(example: Example, head: Head): HeadWork {
  const query = times(example.x[example.reader], head.W_Q);
  const keys = mapped(example.values, (_, word) => times(example.x[word], head.W_K));
  const scores = mapped(keys, (key) => dot(query, key) / Math.sqrt(query.length));
  const products = mapped(example.values, (row, word) => row.map((value) => head.scorecard[word] * value));
  const delivered = weigh(head.scorecard, example.values);
  return { query, keys, scores, weights: softmax(scores), products, delivered };
}

function startSteps(example: Example, index: number, head: Head, done: HeadWork): Step[] {
  const x = example.x[example.reader];
  const root = formatNumber(Math.sqrt(done.query.length));
  const powers = mapped(done.scores, (score) => Math.exp(score));
  const total = sum(Object.values(powers));
  return [
    {
      title: `Head ${index}: the query of “${example.reader}”`,
      says: `Head ${index} asks: ${head.asks} x times W_Q makes the question.`,
      lines: done.query.map((made, at) => {
        const column = head.W_Q.map((row) => row[at]);
        return `q${index}[${at + 1}] = ${products(x, column)} = ${formatNumber(made)}`;
      }),
    },
    {
      title: `Head ${index}: scores`,
      says: `The query meets every key; √${done.query.length} = ${root} keeps the numbers small.`,
      lines: Object.entries(done.scores).map(
        ([word, score]) => `${word}: (${products(done.query, done.keys[word])}) / ${root} = ${formatNumber(score)}`,
      ),
    },
    {
      title: `Head ${index}: softmax`,
      says: "e to the score, divided by the sum of them: shares that add up to 1.",
      lines: Object.entries(powers).map(
        ([word, power]) =>
          `${word}: ${formatNumber(power, 2)} / ${formatNumber(total, 2)} = ${formatNumber(done.weights[word])}`,
      ),
    },
  ];
}

function weighStep(example: Example, index: number, head: Head, done: HeadWork): Step {
  const words = Object.keys(example.values);
  const card = words.map((word) => head.scorecard[word]);
  const says = words.map((word) => `${word} ${formatNumber(head.scorecard[word])}`).join(", ");
  return {
    title: `Head ${index}: weigh the values`,
    says: `With the given scorecard: ${says}.`,
    lines: done.delivered.map((total, column) => {
      const values = words.map((word) => example.values[word][column]);
      return `o${index}[${column + 1}] = ${products(card, values)} = ${formatNumber(total)}`;
    }),
  };
}

function endSteps(example: Example, concatenated: Row, mixed: Row): Step[] {
  const names = example.heads.map((_, at) => `o${at + 1}`).join(", ");
  const column = (at: number) => example.W_O.map((row) => row[at]);
  return [
    {
      title: "Concatenate",
      says: "End to end, nothing added, nothing chosen.",
      lines: [`[${names}] = ${formatVector(concatenated)}`],
    },
    {
      title: "W_O, the identity",
      says: "A W_O that does nothing hands on what the heads said, each in its own place.",
      lines: [`y = ${formatVector(concatenated)}`],
    },
    {
      title: "W_O, mixing",
      says: "Now every number of y is made from both heads.",
      lines: mixed.map(
        (total, at) => `y[${at + 1}] = ${products(concatenated, column(at))} = ${formatNumber(total, 4)}`,
      ),
    },
  ];
}

function checkScorecard(name: string, card: Record<string, number>): void {
  const lowest = Object.keys(card).reduce((low, word) => (card[word] < card[low] ? word : low));
  const refuse = (says: string) => new Problem("InputError", says);
  if (card[lowest] < 0) throw refuse(`${name} gives ${lowest} ${card[lowest]}; shares must be at least 0`);
  const total = sum(Object.values(card));
  if (Math.abs(total - 1) > 0.005)
    throw refuse(
      `the shares of ${name} add up to ${Number(total.toPrecision(6))}; they must add up to 1, as .70 + .05 + .10 + .05 + .10 do`,
    );
}

/** z of a head: the sum of weight · value. */
export function weigh(weights: Record<string, number>, values: Record<string, Row>): Row {
  const rows = Object.entries(values);
  return rows[0][1].map((_, column) => sum(rows.map(([word, row]) => weights[word] * row[column])));
}

/** Without trailing zeros: .62, −.5, 3, 0. Rounds halves to even, as Python does. */
export function formatNumber(value: number, digits = 3): string {
  const size = Math.abs(value);
  const scaled = size * 10 ** digits;
  const tie = scaled % 1 === 0.5 && Number.isInteger(size * 2 ** (digits + 1)) && Math.floor(scaled) % 2 === 0;
  let text = (tie ? Math.floor(scaled) / 10 ** digits : size).toFixed(digits);
  if (text.includes(".")) text = text.replace(/0+$/, "").replace(/\.$/, "").replace(/^0/, "") || "0";
  return value < 0 && text !== "0" ? `−${text}` : text;
}

export function formatVector(values: Row): string {
  return `(${values.map((value) => formatNumber(value)).join(" ")})`;
}

/** a·b + c·d …, without products that are zero. */
function products(left: Row, right: Row): string {
  const kept = left.flatMap((a, at) => (a && right[at] ? [`${formatNumber(a)}·${formatNumber(right[at])}`] : []));
  return kept.join(" + ") || "0";
}

function times(row: Row, matrix: Row[]): Row {
  return matrix[0].map((_, column) => sum(row.map((a, line) => a * matrix[line][column])));
}

const dot = (a: Row, b: Row) => sum(a.map((value, at) => value * b[at]));
const sum = (numbers: Row) => numbers.reduce((total, each) => total + each, 0);

function softmax(scores: Record<string, number>): Record<string, number> {
  const highest = Math.max(...Object.values(scores));
  const powers = mapped(scores, (score) => Math.exp(score - highest));
  const total = sum(Object.values(powers));
  return mapped(powers, (power) => power / total);
}

function mapped<From, To>(table: Record<string, From>, change: (value: From, word: string) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(table).map(([word, value]) => [word, change(value, word)]));
}
