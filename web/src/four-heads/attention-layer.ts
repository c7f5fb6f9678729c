// One layer of attention heads that learns target patterns, and its gradients: W_Q and W_K of each head learn its pattern.
// What follows the pattern, W_V, W_O and the unembedding, is learned where the microscope opens them: lab/teach/crafted_heads.py.

export interface Sizes {
  length: number; // words of the sentence
  heads: number;
  dModel: number;
  dHead: number;
}

export type Weights = Record<"q" | "k", Float64Array>; // each [head · d_head, d_model]

const RATE = 0.005;

export class AttentionLayer {
  private readonly mean: Weights;
  private readonly square: Weights;
  private steps = 0;

  constructor(
    readonly sizes: Sizes,
    readonly x: Float64Array, // [word, d_model], not trained
    readonly weights: Weights,
  ) {
    [this.mean, this.square] = [zeros(weights), zeros(weights)];
  }

  /** x through a matrix: [word, output]. */
  project(name: "q" | "k"): Float64Array {
    const { heads, dHead, dModel } = this.sizes;
    return through(this.x, this.weights[name], dModel, heads * dHead);
  }

  /** The pattern of every head: [head, query, key]. */
  patterns(): Float64Array {
    const { length, heads, dHead } = this.sizes;
    const [q, k] = [this.project("q"), this.project("k")];
    const weights = new Float64Array(heads * length * length);
    const wide = heads * dHead;
    for (let head = 0; head < heads; head++)
      for (let query = 0; query < length; query++) {
        const row = weights.subarray((head * length + query) * length, (head * length + query + 1) * length);
        let highest = -Infinity;
        for (let key = 0; key <= query; key++) {
          let score = 0;
          for (let d = 0; d < dHead; d++)
            score += q[query * wide + head * dHead + d] * k[key * wide + head * dHead + d];
          row[key] = score / Math.sqrt(dHead);
          highest = Math.max(highest, row[key]);
        }
        let total = 0;
        for (let key = 0; key <= query; key++) total += row[key] = Math.exp(row[key] - highest);
        for (let key = 0; key <= query; key++) row[key] /= total;
      }
    return weights;
  }

  /** One step of Adam. */
  learn(weights: Float64Array, wanted: Float64Array): void {
    const gradients = this.ofPatterns(weights, wanted);
    this.steps += 1;
    const [size, correction] = [RATE / (1 - 0.9 ** this.steps), 1 - 0.999 ** this.steps];
    for (const name of Object.keys(gradients) as (keyof Weights)[]) {
      const [gradient, mean, square, weight] = [
        gradients[name],
        this.mean[name],
        this.square[name],
        this.weights[name],
      ];
      for (let at = 0; at < weight.length; at++) {
        mean[at] = 0.9 * mean[at] + 0.1 * gradient[at];
        square[at] = 0.999 * square[at] + 0.001 * gradient[at] ** 2;
        weight[at] -= (size * mean[at]) / (Math.sqrt(square[at] / correction) + 1e-8);
      }
    }
  }

  /** Of cross-entropy between wanted and actual patterns: the gradient of a score is (weight − wanted) / words. */
  private ofPatterns(weights: Float64Array, wanted: Float64Array): Weights {
    const { length, heads, dHead, dModel } = this.sizes;
    const [q, k, wide] = [this.project("q"), this.project("k"), heads * dHead];
    const [dq, dk] = [new Float64Array(q.length), new Float64Array(k.length)];
    for (let head = 0; head < heads; head++)
      for (let query = 0; query < length; query++)
        for (let key = 0; key <= query; key++) {
          const at = (head * length + query) * length + key;
          const share = (weights[at] - wanted[at]) / length / Math.sqrt(dHead);
          for (let d = head * dHead; d < (head + 1) * dHead; d++) {
            dq[query * wide + d] += share * k[key * wide + d];
            dk[key * wide + d] += share * q[query * wide + d];
          }
        }
    return { q: outer(dq, this.x, wide, dModel), k: outer(dk, this.x, wide, dModel) };
  }
}

const zeros = (weights: Weights) =>
  Object.fromEntries(Object.entries(weights).map(([name, each]) => [name, new Float64Array(each.length)])) as Weights;

/** [row, input] times the transpose of [output, input]. */
function through(rows: Float64Array, matrix: Float64Array, input: number, output: number): Float64Array {
  const made = new Float64Array((rows.length / input) * output);
  for (let row = 0; row < rows.length / input; row++)
    for (let out = 0; out < output; out++) {
      let sum = 0;
      for (let at = 0; at < input; at++) sum += rows[row * input + at] * matrix[out * input + at];
      made[row * output + out] = sum;
    }
  return made;
}

/** Σ over rows of [row, output] ⊗ [row, input]: the gradient of a matrix. */
function outer(left: Float64Array, right: Float64Array, output: number, input: number): Float64Array {
  const made = new Float64Array(output * input);
  for (let row = 0; row < left.length / output; row++)
    for (let out = 0; out < output; out++) {
      const value = left[row * output + out];
      for (let at = 0; at < input; at++) made[out * input + at] += value * right[row * input + at];
    }
  return made;
}
