// Attention weights recomputed from q, k and log-sum-exp, which app/export/saved_patterns.py writes.
import { cellOf } from "../draw/heat-map";
import { unpack } from "../wire";
import type { Tile, WeightsRequest } from "./source";

export interface Parts {
  scale: number;
  softcap: number | null;
  q: Float32Array; // [head, query, d_head]
  k: Float32Array; // [KV head, key, d_head]
  logsumexp: Float32Array; // [head, query]
  runs: Int32Array; // [query, 2]: the first key a row sees, and the first after it that it does not
  heads: number;
  kvHeads: number;
  queries: number;
  keys: number;
  width: number;
}

export function partsFrom(bytes: ArrayBuffer): Parts {
  const { values, arrays } = unpack(bytes);
  const numbers = Object.fromEntries(Object.entries(arrays).map(([name, table]) => [name, table.data]));
  const [heads, queries, width] = arrays.q.shape;
  const [kvHeads, keys] = arrays.k.shape;
  return { ...(values as object), ...numbers, heads, queries, width, kvHeads, keys } as Parts;
}

/** Factors of another measure than the weight itself: one for each row, or one for each key. */
export interface Factors {
  byRow?: Float32Array;
  byKey?: Float32Array;
}

/** A rectangle of one head's pattern; each number is the largest of the weights it stands for. */
export function tileOf(parts: Parts, head: number, wanted: WeightsRequest, { byRow, byKey }: Factors = {}): Tile {
  const rows = inside(wanted.rows, parts.queries);
  const columns = inside(wanted.columns, parts.keys);
  const height = Math.ceil((rows[1] - rows[0]) / wanted.pool);
  const width = Math.ceil((columns[1] - columns[0]) / wanted.pool);
  const across = Uint32Array.from({ length: columns[1] - columns[0] }, (_, at) =>
    cellOf(columns[0] + at, columns, width),
  );
  const weights = new Float32Array(height * width);
  for (let row = rows[0]; row < rows[1]; row++) {
    const line = cellOf(row, rows, height) * width;
    const factor = byRow ? byRow[row] : 1;
    eachWeight(parts, head, row, columns, (key, exact) => {
      const weight = exact * factor * (byKey ? byKey[key] : 1);
      const at = line + across[key - columns[0]];
      if (weight > weights[at]) weights[at] = weight;
    });
  }
  const { look, pool, measure } = wanted;
  return {
    look,
    head: wanted.head,
    rows,
    columns,
    pool,
    measure: byRow || byKey ? measure : "weight",
    weights,
    height,
    width,
  };
}

/** The largest weight of every row, from this key on. */
export function rowMaxima(parts: Parts, head: number, from: number): Float32Array {
  return Float32Array.from({ length: parts.queries }, (_, row) => {
    let largest = 0;
    eachWeight(parts, head, row, [from, parts.keys], (_key, weight) => (largest = Math.max(largest, weight)));
    return largest;
  });
}

/** p = exp(s − lse), for the keys among these columns that the row sees. */
function eachWeight(
  parts: Parts,
  head: number,
  row: number,
  columns: [number, number],
  tell: (key: number, weight: number) => void,
): void {
  const logsumexp = parts.logsumexp[head * parts.queries + row];
  const stop = Math.min(columns[1], parts.runs[2 * row + 1]);
  for (let key = Math.max(columns[0], parts.runs[2 * row]); key < stop; key++)
    tell(key, Math.exp(scoreOf(parts, head, row, key) - logsumexp));
}

/** The attention score of one query and one key, before softmax. */
export function scoreOf(parts: Parts, head: number, row: number, key: number): number {
  const { q, k, width, scale, softcap } = parts;
  const query = (head * parts.queries + row) * width;
  const start = (Math.floor((head * parts.kvHeads) / parts.heads) * parts.keys + key) * width;
  let score = 0;
  for (let at = 0; at < width; at++) score += q[query + at] * k[start + at];
  score *= scale;
  return softcap === null ? score : softcap * Math.tanh(score / softcap);
}

function inside([start, end]: [number, number], length: number): [number, number] {
  return [start, Math.min(end, length)];
}
