// Every head's scores and thumbnails on a text, from its weights: what app/pages/head_scores.py and tiles.py measure.
import { scoreOf, type Parts } from "../recompute-weights";
import type { SiteCard } from "../source";

export const THUMBNAIL_SIDE = 32;

/** For each row, the keys that answer a question; and the rows that can answer it. */
type Answers = number[][];

/** Earlier copies of each token, and what followed them, among the keys that a row sees: those less than `window` away. */
export function matches(
  ids: number[],
  causal: boolean,
  window: number | null = null,
): { duplicate: Answers; induction: Answers } {
  const places = new Map<number, number[]>();
  ids.forEach((id, at) => places.set(id, [...(places.get(id) ?? []), at]));
  const near = window ?? Infinity;
  const seen = (row: number, keys: number[]) =>
    keys.filter((key) => key !== row && (!causal || key <= row) && Math.abs(row - key) < near);
  return {
    duplicate: ids.map((id, row) => seen(row, places.get(id)!)),
    induction: ids.map((id, row) =>
      seen(
        row,
        places
          .get(id)!
          .map((key) => key + 1)
          .filter((key) => key < ids.length),
      ),
    ),
  };
}

/** How many rows can answer each question. The first row of causal attention has one key and no choice. */
export function answerable(ids: number[], causal: boolean, window: number | null = null): Record<string, number> {
  const { duplicate, induction } = matches(ids, causal, window);
  const near = window ?? Infinity;
  const first = causal ? 1 : 0;
  const rows = (answers: Answers) => answers.filter((keys, row) => row >= first && keys.length > 0).length;
  const all = ids.length - first;
  return {
    previous: near > 1 ? ids.length - 1 : 0,
    itself: all,
    first: Math.min(ids.length, near) - first,
    duplicate: rows(duplicate),
    induction: rows(induction),
    entropy: ids.length - 1,
    distance: ids.length - 1,
  };
}

export interface SiteMeasured {
  logsumexp: Float32Array; // [head, query]
  scores: Record<string, Float32Array>; // by question: [head], NaN where no row can answer
  thumbnails: Uint8Array; // [head, side, side]
}

/** One pass over all weights of a site: log-sum-exp, means of the questions and traits, thumbnails. */
export function measureSite(parts: Parts, site: SiteCard, ids: number[], side: number): SiteMeasured {
  const { heads, queries, keys, runs } = parts;
  const asked = matches(ids, site.causal, site.window);
  const from = site.causal ? 1 : 0;
  const scores = Object.fromEntries(
    ["previous", "itself", "first", "duplicate", "induction", "entropy", "distance"].map((name) => [
      name,
      new Float32Array(heads).fill(NaN),
    ]),
  );
  const logsumexp = new Float32Array(heads * queries);
  const thumbnails = new Uint8Array(heads * side * side);
  const cells = Array.from({ length: keys }, (_, key) => cellsOf(key, keys, side));
  const weights = new Float64Array(keys);
  const counts = answerable(ids, site.causal, site.window);
  for (let head = 0; head < heads; head++) {
    const sums = { previous: 0, itself: 0, first: 0, duplicate: 0, induction: 0, entropy: 0, distance: 0 };
    const small = new Float64Array(side * side);
    for (let row = 0; row < queries; row++) {
      const [start, stop] = [runs[2 * row], runs[2 * row + 1]];
      const lse = softmaxRow(parts, head, row, weights);
      logsumexp[head * queries + row] = lse.logsumexp;
      for (let key = start; key < stop; key++)
        for (const down of cells[row])
          for (const across of cells[key]) {
            const at = down * side + across;
            if (weights[key] > small[at]) small[at] = weights[key];
          }
      if (row < from) continue;
      const weight = (key: number) => (key >= start && key < stop ? weights[key] : 0);
      if (row > 0) sums.previous += weight(row - 1);
      sums.itself += weight(row);
      sums.first += weight(0);
      for (const key of asked.duplicate[row]) sums.duplicate += weight(key);
      for (const key of asked.induction[row]) sums.induction += weight(key);
      sums.entropy += lse.entropy;
      sums.distance += lse.distance;
    }
    for (const [name, sum] of Object.entries(sums)) {
      const rows = name === "entropy" || name === "distance" ? queries - from : counts[name];
      if (rows > 0) scores[name][head] = sum / rows;
    }
    for (let at = 0; at < small.length; at++)
      thumbnails[head * small.length + at] = Math.round(255 * Math.sqrt(Math.min(1, small[at])));
  }
  return { logsumexp, scores, thumbnails };
}

/** One row's weights, written into `weights`; its log-sum-exp, entropy and mean distance. */
function softmaxRow(parts: Parts, head: number, row: number, weights: Float64Array) {
  const [start, stop] = [parts.runs[2 * row], parts.runs[2 * row + 1]];
  let largest = -Infinity;
  for (let key = start; key < stop; key++) {
    weights[key] = scoreOf(parts, head, row, key);
    if (weights[key] > largest) largest = weights[key];
  }
  let [sum, product, distance] = [0, 0, 0];
  for (let key = start; key < stop; key++) {
    const score = weights[key];
    const weight = Math.exp(score - largest);
    weights[key] = weight;
    sum += weight;
    product += weight * score;
    distance += weight * (row - key);
  }
  for (let key = start; key < stop; key++) weights[key] /= sum;
  const logsumexp = largest + Math.log(sum);
  return { logsumexp, entropy: logsumexp - product / sum, distance: distance / sum };
}

/** The cells of a thumbnail that a token's row or column falls into, as adaptive pooling shares them. */
export function cellsOf(at: number, length: number, side: number): number[] {
  const found = [];
  const last = Math.min(side - 1, Math.ceil(((at + 1) * side) / length));
  for (let cell = Math.max(0, Math.floor((at * side) / length) - 1); cell <= last; cell++)
    if (Math.floor((cell * length) / side) <= at && at < Math.ceil(((cell + 1) * length) / side)) found.push(cell);
  return found;
}
