// The numbers of the fork: queries and keys, shares, the heads' outputs, W_O and y, all computed from what can be dragged.
import type { components } from "../../api";
import { fieldsAt } from "../../address-fields";
import { printed, withShare } from "../../start/shares";
import { askJson } from "../../source/server";

export type Row = number[];
type Example = Required<components["schemas"]["WorkedExample"]>;
export type Mixing = "mixing" | "identity" | "silent" | "own";

/** What a reader can change; an address holds what differs from the beginning. */
interface Drawn {
  shares: Row[];
  queries: Row[];
  keys: Row[][];
  values: Row[];
  W: Row[];
}

export const STEPS = 7;
const QUERIES = [
  [1.4, 1.1],
  [-1.2, 1.3],
];
// how far each key reaches to the side of the query, which changes no score
const ASIDE = [
  [-0.45, 0.95, -1, -0.62, 1.08],
  [0.9, -0.55, -0.95, 0.5, 0.3],
];
const PARTS = ["shares", "queries", "keys", "values", "W"] as const;
const dot = (a: Row, b: Row) => a.reduce((sum, value, at) => sum + value * b[at], 0);
const total = (row: Row) => row.reduce((sum, value) => sum + value, 0);
const clamp = (value: number, most: number) => Math.max(-most, Math.min(most, value));

/** Keys whose scores give exactly these shares: softmax undone. */
function keysFor(query: Row, shares: Row, aside: Row): Row[] {
  const length = Math.hypot(...query);
  const [u, v] = query.map((value) => value / length);
  return shares.map((share, at) => {
    const along = (Math.SQRT2 * (Math.log(share) + 2.2)) / length;
    return [u * along - v * aside[at], v * along + u * aside[at]];
  });
}

export class Fork {
  sentence: string[] = [];
  names: string[] = []; // the words with a value
  reader = "";
  ready = $state(false);
  problem = $state("");
  drawn = $state.raw<Drawn>({ shares: [], queries: QUERIES, keys: [], values: [], W: [] });
  mixing = $state<Mixing>("mixing");
  asking = $state(0); // the head whose query and keys are shown
  split = $state(false);
  column = $state(0); // the number of y that is added up
  cell = $state.raw([0, 0]);
  width = $state(768);
  heads = $state(12);
  sets = $state(12); // of keys and values
  coloured = $state.raw([0, 1]); // the heads with the first and the second colour
  off = $state(false);
  lit = $state<string | null>(null);
  table = $state(false);
  private first!: Drawn;
  private turn = 0;

  async load(address = "", shares?: Row[]): Promise<void> {
    if (!this.ready) {
      const { sentence, reader, values, heads, W_O } = await askJson<Example>("lab/worked");
      [this.sentence, this.reader, this.names] = [sentence.split(" "), reader, Object.keys(values)];
      const given = heads.map(({ scorecard }) => this.names.map((name) => scorecard[name]));
      const keys = QUERIES.map((query, head) => keysFor(query, given[head], ASIDE[head]));
      this.first = { shares: given, queries: QUERIES, keys, values: Object.values(values), W: W_O };
      this.drawn = this.first;
      if (shares) shares.forEach((row, head) => this.setShares(head, row));
      this.ready = true;
    }
    if (address) this.restore(address);
  }

  /** Start's words, which have shares and nothing else yet. */
  begin(sentence: string[], reader: string, names: string[], shares: Row[]): void {
    Object.assign(this, { sentence, reader, names });
    const keys = QUERIES.map(() => names.map(() => [0, 0]));
    this.drawn = this.first = { shares, queries: QUERIES, keys, values: [], W: [] };
    this.ready = true;
  }

  get values(): Row[] {
    return this.drawn.values;
  }

  get changed(): boolean {
    return PARTS.some((part) => this.drawn[part] !== this.first[part]);
  }

  /** What an address keeps. */
  address(): Record<string, string | null> {
    const kept = PARTS.filter((part) => this.drawn[part] !== this.first[part]).map((part) => [part, this.drawn[part]]);
    const rounded = (_: string, value: unknown) => (typeof value === "number" ? Math.round(value * 1e4) / 1e4 : value);
    return {
      e: kept.length ? JSON.stringify(Object.fromEntries(kept), rounded) : null,
      split: this.split ? "1" : null,
      heads:
        `${this.width}.${this.heads}.${this.sets}` === "768.12.12" ? null : `${this.width}.${this.heads}.${this.sets}`,
      off: this.off ? "1" : null,
    };
  }

  restore(query: string): void {
    const fields = fieldsAt(`?${query}`);
    const like = (one: unknown, other: unknown): boolean =>
      Array.isArray(one)
        ? Array.isArray(other) && one.length === other.length && one.every((each, at) => like(each, other[at]))
        : Number.isFinite(other);
    try {
      const edits = JSON.parse(fields.get("e") ?? "{}") as Partial<Drawn>;
      const fit = PARTS.filter((part) => part in edits && like(this.first[part], edits[part]));
      this.drawn = { ...this.first, ...Object.fromEntries(fit.map((part) => [part, edits[part]])) };
      if (fit.includes("W")) this.mixing = "own";
    } catch {
      this.drawn = this.first; // an address that was cut off
    }
    this.split = fields.has("split");
    this.off = fields.has("off");
    const [width, heads, sets] = (fields.get("heads") ?? "").split(".").map(Number);
    if (width % heads === 0 && heads % sets === 0) [this.width, this.heads, this.sets] = [width, heads, sets];
  }

  reset(): void {
    [this.drawn, this.mixing] = [this.first, "mixing"];
  }

  // queries and keys ↔ shares

  scores(head: number): Row {
    return this.drawn.keys[head].map((key) => dot(this.drawn.queries[head], key));
  }

  setShare(head: number, word: number, to: number): void {
    this.setShares(head, withShare(this.drawn.shares[head], word, Math.round(to * 100) / 100));
  }

  /** Each key moves along the query, just as far as its share asks. */
  private setShares(head: number, wanted: Row): void {
    const { shares, keys, queries } = this.drawn;
    const query = queries[head];
    const logs = wanted.map((share) => Math.log(Math.max(share, 0.004)));
    const old = keys[head].map((key) => dot(query, key) / Math.SQRT2);
    const level = total(wanted.map((share, at) => share * (old[at] - logs[at])));
    const moved = keys[head].map((key, at) => {
      const by = (Math.SQRT2 * (logs[at] + level - old[at])) / (dot(query, query) || 1);
      return key.map((value, c) => value + by * query[c]);
    });
    this.drawn = { ...this.drawn, shares: shares.with(head, wanted), keys: keys.with(head, moved) };
  }

  /** A tip was dragged: the query (`word` null) or the key of a word. */
  setVector(head: number, word: number | null, to: Row): void {
    const vector = to.map((value) => clamp(Math.round(value * 20) / 20, 1.9));
    const { queries, keys, shares } = this.drawn;
    this.drawn =
      word === null
        ? { ...this.drawn, queries: queries.with(head, vector) }
        : { ...this.drawn, keys: keys.with(head, keys[head].with(word, vector)) };
    const powers = this.scores(head).map((score) => Math.exp(score / Math.SQRT2));
    this.drawn = { ...this.drawn, shares: shares.with(head, powers.map((power) => power / total(powers))) }; // prettier-ignore
  }

  // shares → outputs → y

  printed = (head: number): Row => printed(this.drawn.shares[head]);
  output = (head: number): Row =>
    this.values[0].map((_, column) => dot(this.drawn.shares[head], this.values.map((row) => row[column]))); // prettier-ignore
  /** What one head contributes to each number of y. */
  part(head: number): Row {
    const output = this.output(head);
    const rows = this.drawn.W.slice(head * output.length, (head + 1) * output.length);
    return this.drawn.W[0].map((_, column) => dot(output, rows.map((row) => row[column]))); // prettier-ignore
  }
  get y(): Row {
    const [one, two] = [this.part(0), this.part(1)];
    return one.map((value, at) => value + two[at]);
  }

  setValue(word: number, column: number, to: number): void {
    const { values } = this.drawn;
    this.drawn = { ...this.drawn, values: values.with(word, values[word].with(column, to)) };
  }

  setW(row: number, column: number, to: number): void {
    const { W } = this.drawn;
    this.drawn = { ...this.drawn, W: W.with(row, W[row].with(column, to)) };
    [this.mixing, this.column] = ["own", column];
  }

  mix(how: Mixing): void {
    const { W } = this.first;
    const half = W.length / 2;
    const made: Partial<Record<Mixing, Row[]>> = {
      identity: W.map((row, at) => row.map((_, to) => Number(at === to))),
      silent: W.map((row, at) => (at < half ? row : row.map(() => 0))),
    };
    this.drawn = { ...this.drawn, W: made[how] ?? W };
    this.mixing = how;
  }

  /** So many heads of a layer of this width, and sets of keys and values among them. */
  count(width: number, heads: number, sets: number): void {
    [this.width, this.heads, this.sets] = [width, heads, sets];
    if (Math.max(...this.coloured) >= heads) this.coloured = [0, 1];
  }

  /** Another head gets the first colour or the second; a press changes them in turn. */
  give(head: number, which = this.turn): void {
    if (head < 0 || head >= this.heads || this.coloured.includes(head)) return;
    [this.coloured, this.turn] = [this.coloured.with(which, head), 1 - which];
  }
}
