// The next token: guesses, sampling and the effect of edits, as app/pages/predictions.py and heads/look/sampling.py.
import type { Guess, PredictRequest, Prediction } from "../source";

const LADDER = 64; // tokens of the distribution that a truncation is drawn on

export function softmax(logits: ArrayLike<number>, temperature = 1): Float64Array {
  let largest = -Infinity;
  for (let at = 0; at < logits.length; at++) largest = Math.max(largest, logits[at]);
  const weights = Float64Array.from(logits, (logit) => Math.exp((logit - largest) / temperature));
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

/** Temperature, then the k likeliest, then the fewest tokens that make up the share p; each renormalised. */
export function sampledFrom(
  logits: Float32Array,
  asked: NonNullable<PredictRequest["sampling"]>,
  guesses: Guess[],
): NonNullable<Prediction["sampled"]> {
  const greedy = asked.temperature === 0;
  const order = likeliest(logits, logits.length);
  const tempered = greedy ? new Float64Array(logits.length) : softmax(logits, asked.temperature);
  if (greedy) tempered[order[0]] = 1;
  const ranked = order.map((id) => tempered[id]);
  const afterK = greedy ? 1 : Math.min(asked.top_k ?? order.length, order.length);
  const shareK = ranked.slice(0, afterK).reduce((sum, each) => sum + each, 0);
  let kept = 0;
  for (let before = 0; kept < afterK && (kept === 0 || before < (asked.top_p ?? Infinity)); kept++)
    before += ranked[kept] / shareK;
  const mass = ranked.slice(0, kept).reduce((sum, each) => sum + each, 0);
  const rank = new Map(order.map((id, place) => [id, place]));
  return {
    probabilities: guesses.map(({ id }) => (rank.get(id)! < kept ? tempered[id] / mass : 0)),
    ladder: ranked.slice(0, LADDER),
    after_k: afterK,
    kept,
    mass,
  };
}
