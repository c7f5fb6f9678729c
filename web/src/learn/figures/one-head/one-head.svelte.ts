// One head on four words: every number that the lesson shows, and how it follows from the others.
import { fixed } from "../../../format";
import { numbers, type Editor } from "../../lesson-numbers.svelte";

export interface OneHeadProps {
  words: string[];
  features: string[];
  x: number[][]; // [word, feature]
  w_q: number[][]; // [feature, number]
  w_k: number[][];
  w_v: number[][];
}
export type Kind = "q" | "k" | "v";

export interface Row {
  scores: number[];
  small: number[]; // scores, divided by √d
  powers: number[]; // e to the power of those; 0 for words that may not be read
  sum: number;
  shares: number[];
  output: number[];
}

const LEAST = -3;
const MOST = 3;
const dot = (a: number[], b: number[]) => a.reduce((sum, value, at) => sum + value * b[at], 0);
const times = (row: number[], matrix: number[][]) =>
  matrix[0].map((_, column) =>
    dot(
      row,
      matrix.map((each) => each[column]),
    ),
  );
export const clamp = (value: number) => Math.max(LEAST, Math.min(MOST, Math.round(value * 10) / 10));

export class OneHead {
  readonly words: string[];
  readonly features: string[];
  readonly matrices: Record<Kind, number[][]>;
  x = $state<number[][]>([]);
  q = $state<number[][]>([]);
  k = $state<number[][]>([]);
  v = $state<number[][]>([]);
  asker = $state(0);
  causal = $state(true);
  scaled = $state(true);
  byHand = $state<string[]>([]); // "q3": vectors that were dragged away from what the matrix gives

  readonly now = $derived(this.row(this.asker));
  readonly seen = $derived(this.k.map((_, at) => at).filter((at) => this.sees(this.asker, at)));
  readonly order = $derived([...this.seen].sort((a, b) => this.now.shares[b] - this.now.shares[a]));
  readonly best = $derived(this.order[0]);
  readonly byScore = $derived([...this.seen].sort((a, b) => this.now.scores[b] - this.now.scores[a]));

  constructor({ words, features, x, w_q, w_k, w_v }: OneHeadProps) {
    [this.words, this.features, this.matrices] = [words, features, { q: w_q, k: w_k, v: w_v }];
    this.x = structuredClone(x);
    this.asker = words.length - 1;
    for (const kind of ["q", "k", "v"] as const)
      this[kind] = x.map((row) => times(row, this.matrices[kind]).map(round));
  }

  get d(): number {
    return this.q[0].length;
  }

  sees(from: number, to: number): boolean {
    return !this.causal || to <= from;
  }

  row(from: number, query = this.q[from]): Row {
    const scores = this.k.map((key) => dot(query, key));
    const small = scores.map((score) => (this.scaled ? score / Math.sqrt(this.d) : score));
    const powers = small.map((score, to) => (this.sees(from, to) ? Math.exp(score) : 0));
    const sum = powers.reduce((all, each) => all + each, 0);
    const shares = powers.map((power) => power / sum);
    const output = this.v[0].map((_, at) => shares.reduce((all, share, to) => all + share * this.v[to][at], 0));
    return { scores, small, powers, sum, shares, output };
  }

  set(kind: Kind, word: number, at: number, value: number): void {
    this[kind][word][at] = clamp(value);
    if (!this.byHand.includes(`${kind}${word}`)) this.byHand = [...this.byHand, `${kind}${word}`];
  }

  setX(word: number, feature: number, value: number): void {
    this.x[word][feature] = clamp(value);
    for (const kind of ["q", "k", "v"] as const) this[kind][word] = times(this.x[word], this.matrices[kind]).map(round);
    this.byHand = this.byHand.filter((name) => Number(name.slice(1)) !== word);
  }

  double(): void {
    this.q[this.asker].forEach((value, at) => this.set("q", this.asker, at, value * 2));
  }

  /** The numbers that the lesson's text, captions and code speak of. */
  publish(): void {
    const { scores, shares, output, small } = this.now;
    const [best, second] = this.order;
    const worst = this.byScore.at(-1)!;
    const top = this.byScore[0];
    const list = (rows: number[][]) =>
      `[${rows.map((row) => `[${row.map((each) => each.toFixed(1)).join(", ")}]`).join(", ")}]`;
    numbers.publish({
      asker: this.words[this.asker],
      q1: this.q[this.asker][0],
      q2: this.q[this.asker][1],
      fits: this.words[top],
      k1: this.k[top][0],
      k2: this.k[top][1],
      score: scores[top],
      misfit: this.words[worst],
      worst_score: scores[worst],
      small: small[top],
      root: Math.sqrt(this.d),
      most: this.words[best],
      share: shares[best],
      times: second === undefined ? 1 : shares[best] / shares[second],
      next: this.words[second ?? best],
      o1: output[0],
      o2: output[1],
      doubled: this.row(
        this.asker,
        this.q[this.asker].map((each) => each * 2),
      ).shares[best],
      unscaled: Math.exp(scores[best]) / this.seen.reduce((all, at) => all + Math.exp(scores[at]), 0),
      first_share: this.row(0).shares[0],
      query_code: `[${this.q[this.asker].map((each) => each.toFixed(1)).join(", ")}]`,
      keys_code: list(this.seen.map((at) => this.k[at])),
      values_code: list(this.seen.map((at) => this.v[at])),
    });
    const editor = (kind: Kind, word: number, at: number): Editor => ({
      label: `${kind} of ${this.words[word]}, number ${at + 1}`,
      least: LEAST,
      most: MOST,
      step: 0.1,
      set: (value) => this.set(kind, word, at, value),
    });
    const asker = this.asker;
    numbers.edit(
      {
        q1: editor("q", asker, 0),
        q2: editor("q", asker, 1),
        k1: editor("k", top, 0),
        k2: editor("k", top, 1),
      },
      {
        q1: "q",
        q2: "q",
        k1: "k",
        k2: "k",
        score: "s",
        worst_score: "s",
        root: "d",
        small: "d",
        share: "a",
        times: "a",
        o1: "o",
        o2: "o",
      },
    );
  }
}

const round = (value: number) => Math.round(value * 1000) / 1000;

/** The lesson's one head: made by the first figure that has its numbers. */
export const oneHead = (props?: OneHeadProps): OneHead => numbers.shared("one-head", () => new OneHead(props!));

export const one = (value: number): string => (value < -0.0001 ? "−" : "") + fixed(Math.abs(value), 1);
export const two = (value: number): string => (value < -0.004 ? "−" : "") + fixed(Math.abs(value), 2);
