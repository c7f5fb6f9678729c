// Each head's part through W_O, and its share of a logit, as heads/look/attribution.py computes them.
import type { PublishedModel } from "./files";
import { rowOf } from "./weights-file";

export interface Weights {
  file: ArrayBuffer;
  card: PublishedModel;
  arrays: Record<string, Float32Array>; // biases by site, the final norm's gain, and what it makes of nothing
}

/** z of every head of a site through its rows of W_O: [head, d_model]. */
export function partsOf({ file, card }: Weights, site: string, z: Float32Array, heads: number): Float32Array | null {
  const table = card.tables[`W_O ${site}`];
  if (!table) return null;
  const [width, size] = [card.model.d_model, z.length / heads];
  const parts = new Float32Array(heads * width);
  for (let row = 0; row < z.length; row++) {
    const weights = rowOf(file, table, row);
    const begins = Math.floor(row / size) * width;
    for (let at = 0; at < width; at++) parts[begins + at] += z[row] * weights[at];
  }
  return parts;
}

/** The direction in the residual stream that raises a logit, with the final norm held at its value here. */
export function directionOf(
  { file, card, arrays }: Weights,
  tokens: [number, number | null],
  residual: Float32Array,
  normed: Float32Array,
): Float32Array {
  const wanted = rowOf(file, card.tables.W_U, tokens[0]);
  if (tokens[1] !== null) rowOf(file, card.tables.W_U, tokens[1]).forEach((weight, at) => (wanted[at] -= weight));
  const { gain, at_zero } = arrays;
  const mean = card.attribution.centred ? residual.reduce((sum, each) => sum + each, 0) / residual.length : 0;
  let [product, square] = [0, 0];
  for (let at = 0; at < residual.length; at++) {
    const scaled = (residual[at] - mean) * gain[at];
    product += (normed[at] - at_zero[at]) * scaled;
    square += scaled * scaled;
  }
  const size = product / Math.max(square, 1e-12);
  const reading = wanted.map((weight, at) => weight * gain[at] * size);
  if (!card.attribution.centred) return reading;
  const average = reading.reduce((sum, each) => sum + each, 0) / reading.length;
  return reading.map((each) => each - average);
}

export function shareOf(part: Float32Array, direction: Float32Array, scale: number): number {
  let sum = 0;
  for (let at = 0; at < part.length; at++) sum += part[at] * direction[at];
  return sum * scale;
}
