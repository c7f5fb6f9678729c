// The next token: guesses and the effect of edits, as app/pages/predictions.py.
import type { Guess } from "../source";

export function softmax(logits: ArrayLike<number>): Float64Array {
  let largest = -Infinity;
  for (let at = 0; at < logits.length; at++) largest = Math.max(largest, logits[at]);
  const weights = Float64Array.from(logits, (logit) => Math.exp(logit - largest));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** The tokens of the highest numbers, best first; of equal ones the first. */
export function likeliest(numbers: ArrayLike<number>, count: number): number[] {
  return Array.from({ length: numbers.length }, (_, id) => id)
    .sort((a, b) => numbers[b] - numbers[a] || a - b)
    .slice(0, count);
}

export function guessesOf(logits: Float32Array, count: number, textOf: (id: number) => string): Guess[] {
  const probabilities = softmax(logits);
  return likeliest(logits, count).map((id) => ({ id, text: textOf(id), probability: probabilities[id] }));
}

/** Probabilities of the shown tokens under the edits, and KL(as is ‖ edited) in nats. */
export function effectOf(
  before: Float32Array,
  after: Float32Array,
  guesses: Guess[],
): { without: number[]; kl: number } {
  const [asIs, changed] = [softmax(before), softmax(after)];
  let kl = 0;
  for (let id = 0; id < asIs.length; id++) if (asIs[id] > 0) kl += asIs[id] * Math.log(asIs[id] / changed[id]);
  return { without: guesses.map(({ id }) => changed[id]), kl: Math.max(0, kl) };
}
