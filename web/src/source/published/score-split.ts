// Why a head looks there: one score split over pairs of writers; heads/explain/score_split.py in the browser.
import { Problem } from "../problem";
import { scoreOf, type Parts } from "../recompute-weights";
import type { Why, WhyRequest } from "../source";
import type { SideParts, Writer } from "./score-parts";

const PAIRED = 32; // writers of each side whose pairs are told, as the server does

export interface Arrow {
  asked: WhyRequest;
  head: number;
  group: string[];
  q: SideParts;
  k: SideParts;
  scores: Parts; // of the site
  tokens: string[];
  /** what a head that is a writer read most at a position */
  strongest: (head: string, position: number) => { position: number; weight: number };
}

export function splitArrow(arrow: Arrow): Why {
  const { asked, q, k, scores, head } = arrow;
  const row = rowOfScores(scores, head, asked.query);
  const against = baseline(row, asked);
  const asking = q.at(asked.query).map((part) => part * scores.scale);
  const keys = difference(k.at(asked.key), weightedSum(k, row, against));
  const width = q.width;
  const pairs = product(asking, keys, width);
  const moved = averaged(k, row);
  const positions = moved && product(asking, difference(k.at(asked.key), k.at(asked.key, moved)), width);
  const cap = scores.softcap === null ? null : row.final.map((each, at) => each - row.raw[at]);
  const of = (numbers: Float64Array) => numbers[asked.key - row.first] - dot(numbers, against);
  const terms: Record<string, number> = cap ? { cap: of(cap) } : {};
  const [score, base] = [row.final[asked.key - row.first], dot(row.final, against)];
  const [sum, size] = [total(pairs), pairs.reduce((all, each) => all + Math.abs(each), 0)];
  const bySize = {
    asked: shares(arrow, q.writers, pairs, positions, "query"),
    answered: shares(arrow, k.writers, pairs, positions, "key"),
  };
  const place = (position: number) => ({ position, token: arrow.tokens[position] });
  return {
    look: asked.look,
    head: asked.head,
    group: arrow.group,
    query: place(asked.query),
    key: place(asked.key),
    weight: row.weights[asked.key - row.first],
    score,
    baseline: base,
    total: score - base,
    minus: String(asked.minus),
    n_visible: row.final.length,
    sink: null,
    position_part: positions ? total(positions) : 0,
    asked: bySize.asked.map(({ share }) => share),
    answered: bySize.answered.map(({ share }) => share),
    terms,
    pairs: bySize.asked
      .slice(0, PAIRED)
      .map(({ at }) => bySize.answered.slice(0, PAIRED).map((other) => pairs[at * k.writers.length + other.at])),
    pairs_count: pairs.length,
    pairs_sum: sum,
    pairs_size: size,
    error: Math.abs(sum + (terms.cap ?? 0) - (score - base)) / Math.max(size, 1e-30),
  };
}

interface Row {
  first: number; // visible key
  raw: Float64Array; // q·k of the visible keys
  final: Float64Array; // capped, where the model caps
  weights: Float64Array;
}

function rowOfScores(scores: Parts, head: number, query: number): Row {
  const [first, stop] = scores.runs.subarray(2 * query, 2 * query + 2);
  const visible = Array.from({ length: stop - first }, (_, at) => first + at);
  const final = Float64Array.from(visible, (key) => scoreOf(scores, head, query, key));
  const raw = Float64Array.from(visible, (key) => scoreOf({ ...scores, softcap: null }, head, query, key));
  const highest = Math.max(...final);
  const powers = final.map((score) => Math.exp(score - highest));
  const all = total(powers);
  return { first, raw, final, weights: powers.map((power) => power / all) };
}

/** Weights over the visible keys that a key is compared with. */
function baseline(row: Row, { head, query, key, minus }: WhyRequest): Float64Array {
  const count = row.final.length;
  for (const place of typeof minus === "number" ? [key, minus] : [key])
    if (!(place - row.first >= 0 && place - row.first < count))
      throw new Problem(
        "InputError",
        `${head} at query ${query} does not see key ${place}: it comes later, or the mask hides it; visible keys are ${row.first}–${row.first + count - 1}`,
      );
  if (minus === "mean") return new Float64Array(count).fill(1 / count);
  const weights = new Float64Array(count);
  if (minus !== "others") {
    weights[minus - row.first] = 1;
    return weights;
  }
  weights.set(row.weights);
  weights[key - row.first] = 0;
  const all = total(weights);
  return all > 0 ? weights.map((weight) => weight / all) : weights;
}

/** The parts of the visible keys, averaged with these weights: [writer, d_head]. */
function weightedSum(k: SideParts, { first }: Row, against: Float64Array): Float64Array {
  const mean = new Float64Array(k.writers.length * k.width);
  against.forEach((weight, at) => {
    if (weight) k.at(first + at).forEach((part, index) => (mean[index] += weight * part));
  });
  return mean;
}

/** The mean rotation over the visible keys; null where nothing is rotated. */
function averaged(k: SideParts, { first, final }: Row): Float64Array | null {
  if (!k.rotates) return null;
  const mean = new Float64Array(k.width);
  final.forEach((_, at) => k.anglesAt(first + at).forEach((each, index) => (mean[index] += each / final.length)));
  return mean;
}

/** Every row of one [writer, d_head] times every row of another: [writer, writer]. */
function product(one: Float64Array, other: Float64Array, width: number): Float64Array {
  const [rows, columns] = [one.length / width, other.length / width];
  const made = new Float64Array(rows * columns);
  for (let a = 0; a < rows; a++)
    for (let b = 0; b < columns; b++) {
      let sum = 0;
      for (let at = 0; at < width; at++) sum += one[a * width + at] * other[b * width + at];
      made[a * columns + b] = sum;
    }
  return made;
}

/** Each writer of one side over all of the other, the largest first. */
function shares(
  arrow: Arrow,
  writers: Writer[],
  pairs: Float64Array,
  positions: Float64Array | null,
  side: "query" | "key",
) {
  const columns = arrow.k.writers.length;
  const sum = (table: Float64Array, at: number) => {
    let all = 0;
    for (let other = 0; other < pairs.length / writers.length; other++)
      all += side === "query" ? table[at * columns + other] : table[other * columns + at];
    return all;
  };
  const found = writers.map(({ name, kind }, at) => ({
    at,
    share: {
      name,
      kind,
      value: sum(pairs, at),
      position_part: positions ? sum(positions, at) : 0,
      read: kind === "head" ? readOf(arrow, name, arrow.asked[side]) : null,
    },
  }));
  return found.sort((one, other) => Math.abs(other.share.value) - Math.abs(one.share.value));
}

function readOf({ strongest, tokens }: Arrow, head: string, position: number) {
  const read = strongest(head, position);
  return { place: { position: read.position, token: tokens[read.position] }, weight: read.weight };
}

const difference = (one: Float64Array, other: Float64Array) => one.map((each, at) => each - other[at]);
const total = (numbers: Float64Array) => numbers.reduce((sum, each) => sum + each, 0);
const dot = (one: Float64Array, other: Float64Array) => one.reduce((sum, each, at) => sum + each * other[at], 0);
