// Rows of the matrices in a published model's file of weights.
import type { WeightTable } from "./files";

/** A half-precision number as it lies in memory. */
export function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * 2 ** -24 * fraction;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * 2 ** (exponent - 25) * (1024 + fraction);
}

/** Reads single numbers of a matrix by their place in the file. */
function reader(file: ArrayBuffer, { offset, shape, dtype }: WeightTable): (index: number) => number {
  const count = shape[0] * shape[1];
  if (dtype === "float32") {
    const numbers = new Float32Array(file, offset, count);
    return (index) => numbers[index];
  }
  const bits = new Uint16Array(file, offset, count);
  return (index) => half(bits[index]);
}

/** One row of a matrix, as float32. */
export function rowOf(file: ArrayBuffer, table: WeightTable, row: number): Float32Array {
  const [lines, columns] = table.shape;
  const at = reader(file, table);
  return table.transposed
    ? Float32Array.from({ length: lines }, (_, line) => at(line * columns + row))
    : Float32Array.from({ length: columns }, (_, column) => at(row * columns + column));
}
