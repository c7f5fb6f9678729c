// What each writer of the residual stream gives one head's q and k; heads/explain/score_parts.py in the browser.
import { Problem } from "../problem";
import type { SiteCard } from "../source";
import type { Outputs } from "./graph";
import type { Weights } from "./logit-attribution";
import { rowOf } from "./weights-file";

export interface Writer {
  name: string;
  kind: "embedding" | "head" | "mlp";
}

/** The sites up to the one that reads, and what the graph gave of them. */
export interface Streams {
  sites: SiteCard[];
  outputs: Outputs; // z of every site; the stream before and after each norm
  length: number;
}

type Side = "q" | "k";
const ALLOWED = 1e-4; // of the sum of the parts' sizes

/** One head's q or k as a sum over writers, before its rotation. */
export class SideParts {
  readonly writers: Writer[];
  private readonly matrix: Float64Array; // [d_head, d_model], with the norm's gain
  private readonly composed: Float64Array[][]; // by site and head: [d_head, d_value], through its W_O
  private readonly parts = new Map<number, Float64Array>();
  private readonly angles = new Map<number, Float64Array>();
  private readonly projection: Float32Array[]; // rows of W_Q or W_K, of all heads
  readonly width: number;
  readonly rotates: boolean;

  constructor(
    private readonly weights: Weights,
    private readonly streams: Streams,
    private readonly side: Side,
    private readonly head: number, // of q, or the KV head of k
  ) {
    const [earlier, site] = [streams.sites.slice(0, -1), streams.sites.at(-1)!];
    this.width = site.d_head;
    this.rotates = weights.card.split.rotary !== "none";
    const count = (side === "q" ? site.n_heads : site.n_kv_heads) * site.d_head;
    const table = weights.card.tables[`W_${side.toUpperCase()} ${site.name}`];
    this.projection = Array.from({ length: count }, (_, row) => rowOf(weights.file, table, row));
    this.matrix = this.reading(site);
    this.composed = earlier.map((each) => this.through(each));
    const written = earlier.flatMap(({ name, n_heads }): Writer[] => [
      ...Array.from({ length: n_heads }, (_, index): Writer => ({ name: `${name}.${index}`, kind: "head" })),
      { name: `mlp ${name}`, kind: "mlp" },
    ]);
    this.writers = [{ name: "embedding", kind: "embedding" }, ...written];
  }

  /** Every writer's part at a position: [writer, d_head], rotated as the position says, or by these cosines and sines. */
  at(position: number, given?: Float64Array): Float64Array {
    const parts = this.unrotated(position).slice();
    if (!this.rotates) return parts;
    const angles = given ?? this.anglesAt(position);
    const half = this.width / 2;
    for (let begins = 0; begins < parts.length; begins += this.width)
      for (let at = 0; at < half; at++) {
        const [x, y] = [parts[begins + at], parts[begins + half + at]];
        const [cosine, sine] = [angles[at], angles[half + at]];
        parts[begins + at] = x * cosine - y * sine;
        parts[begins + half + at] = y * cosine + x * sine;
      }
    return parts;
  }

  /** Cosines, then sines, of a position: those that turn what the projections of all heads make into the model's q or k. */
  anglesAt(position: number): Float64Array {
    const known = this.angles.get(position);
    if (known) return known;
    const { name } = this.streams.sites.at(-1)!;
    const own = this.streams.outputs[`${this.side} ${name}`];
    const normed = this.positionOf("normed", position);
    const half = this.width / 2;
    const [found, size] = [new Float64Array(this.width), new Float64Array(half)];
    for (let begins = 0; begins < this.projection.length; begins += this.width) {
      const of = ((begins / this.width) * this.streams.length + position) * this.width;
      for (let at = 0; at < half; at++) {
        const [x, y] = [begins + at, begins + half + at].map((row) => dot(this.projection[row], normed));
        const [u, v] = [own[of + at], own[of + half + at]];
        size[at] += x * x + y * y;
        found[at] += x * u + y * v;
        found[half + at] += x * v - y * u;
      }
    }
    found.forEach((each, at) => (found[at] = each / Math.max(size[at % half], 1e-30)));
    this.angles.set(position, found);
    return found;
  }

  /** Refuse parts that do not add up to the q or k that the model computed. */
  check(position: number): void {
    const parts = this.at(position);
    const [sum, size] = [new Float64Array(this.width), new Float64Array(this.width)];
    parts.forEach((part, at) => {
      sum[at % this.width] += part;
      size[at % this.width] += Math.abs(part);
    });
    const { name } = this.streams.sites.at(-1)!;
    const begins = (this.head * this.streams.length + position) * this.width;
    const own = this.streams.outputs[`${this.side} ${name}`].subarray(begins, begins + this.width);
    const gap = Math.max(...sum.map((each, at) => Math.abs(each - own[at])));
    if (!(gap <= ALLOWED * Math.max(...size)))
      throw new Problem(
        "ModelError",
        `Cannot split the scores of ${name}.${this.head}: the recorded contributions do not add up to its ${this.side}`,
      );
  }

  /** W_Q or W_K of this head with the norm's gain; a norm that takes the mean away is a part of it. */
  private reading({ name }: SiteCard): Float64Array {
    const gain = this.weights.arrays[`gain ${name}`];
    const d_model = gain.length;
    const matrix = new Float64Array(this.width * d_model);
    for (let row = 0; row < this.width; row++) {
      const read = this.projection[this.head * this.width + row].map((weight, at) => weight * gain[at]);
      const mean = this.weights.card.split.centred ? read.reduce((sum, each) => sum + each, 0) / d_model : 0;
      read.forEach((weight, at) => (matrix[row * d_model + at] = weight - mean));
    }
    return matrix;
  }

  /** For each head of an earlier site: this matrix after its rows of W_O. */
  private through({ name, n_heads, d_value }: SiteCard): Float64Array[] {
    const { card, file } = this.weights;
    const d_model = this.matrix.length / this.width;
    return Array.from({ length: n_heads }, (_, head) => {
      const made = new Float64Array(this.width * d_value);
      for (let d = 0; d < d_value; d++) {
        const written = rowOf(file, card.tables[`W_O ${name}`], head * d_value + d);
        for (let row = 0; row < this.width; row++) {
          let sum = 0;
          for (let at = 0; at < d_model; at++) sum += this.matrix[row * d_model + at] * written[at];
          made[row * d_value + d] = sum;
        }
      }
      return made;
    });
  }

  /** Parts before the rotation, [writer, d_head]: embedding; heads; an MLP is what else the stream has gained. */
  private unrotated(position: number): Float64Array {
    const known = this.parts.get(position);
    if (known) return known;
    const { sites, outputs, length } = this.streams;
    const scale = this.heldScale(position);
    const parts = new Float64Array(this.writers.length * this.width);
    let before = this.read(sites[0].name, position);
    parts.set(before);
    let writer = 1;
    sites.slice(0, -1).forEach((site, index) => {
      const after = this.read(sites[index + 1].name, position);
      const mlp = after.map((each, row) => each - before[row]);
      const z = outputs[`z ${site.name}`];
      this.composed[index].forEach((matrix, head) => {
        const begins = (head * length + position) * site.d_value;
        for (let row = 0; row < this.width; row++) {
          let sum = 0;
          for (let d = 0; d < site.d_value; d++) sum += matrix[row * site.d_value + d] * z[begins + d];
          parts[writer * this.width + row] = sum;
          mlp[row] -= sum;
        }
        writer++;
      });
      parts.set(mlp, writer++ * this.width);
      before = after;
    });
    const held = parts.map((part) => part * scale);
    this.parts.set(position, held);
    return held;
  }

  /** The stream before a site, through this head's matrix. */
  private read(site: string, position: number): Float64Array {
    const [d_model, stream] = [this.matrix.length / this.width, this.streams.outputs[`stream ${site}`]];
    return Float64Array.from({ length: this.width }, (_, row) => {
      let sum = 0;
      for (let at = 0; at < d_model; at++) sum += this.matrix[row * d_model + at] * stream[position * d_model + at];
      return sum;
    });
  }

  /** The norm's scale at a position: its output beside the stream with its gain. */
  private heldScale(position: number): number {
    const { name } = this.streams.sites.at(-1)!;
    const gain = this.weights.arrays[`gain ${name}`];
    const [stream, normed] = [this.positionOf("stream", position), this.positionOf("normed", position)];
    const mean = this.weights.card.split.centred ? stream.reduce((sum, each) => sum + each, 0) / stream.length : 0;
    let product = 0;
    let square = 0;
    for (let at = 0; at < gain.length; at++) {
      const scaled = (stream[at] - mean) * gain[at];
      product += normed[at] * scaled;
      square += scaled * scaled;
    }
    return product / Math.max(square, 1e-30);
  }

  /** The stream at a position, before or after the norm of the site that reads. */
  private positionOf(part: "stream" | "normed", position: number): Float32Array {
    const width = this.matrix.length / this.width;
    const { name } = this.streams.sites.at(-1)!;
    return this.streams.outputs[`${part} ${name}`].subarray(position * width, (position + 1) * width);
  }
}

function dot(one: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < one.length; at++) sum += one[at] * other[at];
  return sum;
}
