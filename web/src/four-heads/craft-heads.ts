// Trains the heads of Four heads in the reader's browser and tells of it: a step now and then.
import type { components } from "../api";
import { AttentionLayer, type Sizes } from "./attention-layer";
import { wantedPattern, type Wanted } from "./head-targets";
import type { Target } from "./targets";

export interface Asked {
  words: string[];
  targets: Target[];
  dHead: number;
  steps: number;
  places: boolean;
}

export interface Snapshot {
  step: number;
  loss: number[];
  hit: number[];
  patterns: Float32Array; // [head, query, key]
}

interface Miss {
  word: string;
  position: number;
  hit: number;
  why: string;
}

export interface Finished {
  misses: Miss[][]; // of each head
  losses: number[][]; // [step, head]
  made: Omit<components["schemas"]["HeadsRequest"], "sentence">; // for the microscope
}

export type Told = { snapshot: Snapshot } | { done: Finished };

const D_MODEL = 32;
const SNAPSHOTS = 16;
const SEED = 0;
const INITIAL_SCALE = 0.3; // of W_Q and W_K, so that every head begins with a nearly even pattern
const GOOD_ENOUGH = 0.9; // a row is fitted when this much of its target is covered
const MOST_STEPS = 5000;

interface Job {
  words: string[];
  wanted: Wanted[];
  all: Float64Array; // wanted [head, query, key]
  ids: number[];
}

type Settings = Pick<Asked, "dHead" | "steps" | "places">;

interface Fresh {
  layer: AttentionLayer;
  tokens: Float64Array;
  positions: Float64Array;
}

export function* craftHeads(asked: Asked): Generator<Told> {
  const [job, { steps }] = [jobOf(asked), asked];
  const due = new Set(Array.from({ length: SNAPSHOTS }, (_, at) => Math.round(steps * (at / (SNAPSHOTS - 1)) ** 1.6)));
  const losses: number[][] = [];
  const fresh = freshLayer(job, asked);
  const { layer } = fresh;
  let weights = layer.patterns();
  for (let step = 0; ; step++) {
    const loss = lossOf(weights, job);
    losses.push(loss);
    if (due.has(step)) {
      const hit = job.wanted.map((each, head) => headHit(covered(weights, job, head), each.finds));
      yield { snapshot: { step, loss, hit, patterns: Float32Array.from(weights) } };
    }
    if (step === steps) break;
    layer.learn(weights, job.all);
    weights = layer.patterns();
  }
  yield { done: { misses: missesOf(job, asked, weights), losses, made: madeOf(job, fresh) } };
}

export function jobOf({ words, targets }: Pick<Asked, "words" | "targets">): Job {
  const wanted = targets.map((target) => wantedPattern(target, words));
  const known = [...new Set(words)];
  const ids = words.map((word) => known.indexOf(word) + 1); // 0 is the unknown word
  const all = Float64Array.from(wanted.flatMap(({ rows }) => [...rows]));
  return { words, wanted, all, ids };
}

function freshLayer(job: Job, { dHead, places }: Settings): Fresh {
  const vocabulary = new Set(job.words).size + 1;
  const sizes: Sizes = { length: job.words.length, heads: job.wanted.length, dModel: D_MODEL, dHead };
  const draw = normals();
  const drawn = (count: number, std: number) => Float64Array.from({ length: count }, () => draw() * std);
  const [tokens, positions] = [drawn(vocabulary * D_MODEL, 1), drawn(job.words.length * D_MODEL, places ? 1 : 0)];
  const x = Float64Array.from({ length: job.words.length * D_MODEL }, (_, at) => {
    const [word, m] = [Math.floor(at / D_MODEL), at % D_MODEL];
    return tokens[job.ids[word] * D_MODEL + m] + positions[at];
  });
  const matrix = () => drawn(sizes.heads * dHead * D_MODEL, INITIAL_SCALE * D_MODEL ** -0.5);
  return { layer: new AttentionLayer(sizes, x, { q: matrix(), k: matrix() }), tokens, positions };
}

/** Normal numbers, the same each time (mulberry32, Box and Muller). */
function normals(): () => number {
  let state = SEED + 0x9e3779b9;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Of each head: cross-entropy between its wanted and its actual rows, in nats per word. */
export function lossOf(weights: Float64Array, { all, words, wanted }: Job): number[] {
  const cells = words.length ** 2;
  return wanted.map((_, head) => {
    let sum = 0;
    for (let at = head * cells; at < (head + 1) * cells; at++)
      if (all[at] > 0) sum -= all[at] * Math.log(Math.max(1e-12, weights[at]));
    return sum / words.length;
  });
}

/** How much of each wanted row of a head is covered: Σ min(weight, wanted). */
function covered(weights: Float64Array, { all, words }: Job, head: number): number[] {
  const length = words.length;
  return words.map((_, query) => {
    let sum = 0;
    const begins = (head * length + query) * length;
    for (let at = begins; at < begins + length; at++) sum += Math.min(weights[at], all[at]);
    return sum;
  });
}

function headHit(hits: number[], finds: boolean[]): number {
  const counted = finds.some(Boolean) ? hits.filter((_, row) => finds[row]) : hits;
  return rounded(counted.reduce((sum, hit) => sum + hit, 0) / counted.length);
}

const rounded = (value: number) => Math.round(value * 1e4) / 1e4;

function missesOf(job: Job, settings: Settings, weights: Float64Array): Miss[][] {
  const why = diagnosis(job, settings);
  return job.wanted.map(({ finds }, head) =>
    covered(weights, job, head).flatMap((hit, place) =>
      finds[place] && hit < GOOD_ENOUGH
        ? [{ word: job.words[place], position: place, hit: rounded(hit), why: why(head, place) }]
        : [],
    ),
  );
}

function madeOf({ wanted }: Job, { layer, tokens, positions }: Fresh): Finished["made"] {
  const rows = (matrix: Float64Array) =>
    Array.from({ length: matrix.length / D_MODEL }, (_, row) =>
      Array.from(matrix.subarray(row * D_MODEL, (row + 1) * D_MODEL), Math.fround),
    );
  return {
    finds: wanted.map(({ finds }) => finds),
    tokens: rows(tokens),
    places: rows(positions),
    w_q: rows(layer.weights.q),
    w_k: rows(layer.weights.k),
  };
}

/** Why a row misses its target, found by fitting again: with more steps, then with a wider head. */
function diagnosis(job: Job, settings: Settings): (head: number, place: number) => string {
  const more = Math.min(MOST_STEPS, 4 * settings.steps);
  const fitted = (changed: Settings) => {
    let hits: Float64Array | null = null;
    return (head: number, place: number) => {
      hits ??= refit(job, changed);
      return covered(hits, job, head)[place];
    };
  };
  const [longer, wider] = [fitted({ ...settings, steps: more }), fitted({ ...settings, dHead: D_MODEL })];
  return (head, place) => {
    const same = alike(job, settings, head, place);
    if (same) return same;
    const { steps, dHead } = settings;
    if (longer(head, place) >= GOOD_ENOUGH)
      return `${steps} steps are too few: after ${more} this row reaches ${longer(head, place).toFixed(2)}.`;
    const best = wider(head, place).toFixed(2);
    return Number(wider(head, place)) >= GOOD_ENOUGH
      ? `d_head=${dHead} is too small: a head of ${D_MODEL} numbers reaches ${best} on this row. One score is a product of so few numbers that the rows get in each other's way.`
      : `d_model=${D_MODEL} is too small to tell ${job.words.length} words apart here: even a head of ${D_MODEL} numbers reaches only ${best}.`;
  };
}

function refit(job: Job, settings: Settings): Float64Array {
  const { layer } = freshLayer(job, settings);
  for (let step = 0; step < settings.steps; step++) layer.learn(layer.patterns(), job.all);
  return layer.patterns();
}

/** Words with equal embeddings, which cannot be told apart without positions: as keys or as queries. */
function alike({ words, wanted }: Job, { places }: Settings, head: number, place: number): string {
  if (places) return "";
  const length = words.length;
  const row = (query: number) => wanted[head].rows.subarray(query * length, (query + 1) * length);
  for (let key = 0; key <= place; key++)
    for (let other = 0; other < key; other++)
      if (words[key] === words[other] && Math.abs(row(place)[key] - row(place)[other]) > 1 - GOOD_ENOUGH)
        return `'${words[key]}' at ${other} and at ${key} look alike without positions: no head can choose between them.`;
  for (let other = 0; other < length; other++) {
    const apart = row(place).reduce((sum, share, key) => sum + Math.abs(share - row(other)[key]), 0);
    if (other !== place && words[other] === words[place] && apart > 1 - GOOD_ENOUGH)
      return `'${words[place]}' at ${place} and at ${other} have the same query without positions, but should attend to different words.`;
  }
  return "";
}
