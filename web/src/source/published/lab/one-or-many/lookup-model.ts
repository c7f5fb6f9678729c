// The small model of One or many and its training; lab/teach/lookup_tasks.py in the browser.
import { attend, attendLast } from "./attention";
import { Matrix, Tape } from "./backward";
import { contextOf, vocabularyOf, type Arm, type Rows, type Task } from "./lookup-task";
import { TorchRandom } from "./torch-random";

const RATE = 0.008;

export class LookupModel {
  /** By Python's names, in Python's order: random numbers are drawn in it. */
  readonly weights = new Map<string, Matrix>();

  constructor(
    readonly task: Task,
    readonly arm: Arm,
    readonly dModel: number,
    seed: number,
  ) {
    const random = new TorchRandom(seed);
    for (const [name, rows, columns] of shapesOf(task, arm, dModel)) {
      const table = /^(embedding|positions)/.test(name);
      const drawn = () => random.normal(rows * columns).map((each) => each * (table ? 1 : columns ** -0.5));
      const fixed = name.endsWith("bias") ? 0 : 1;
      this.weights.set(name, new Matrix(rows > 1 ? drawn() : new Float64Array(columns).fill(fixed), columns));
    }
  }

  get nParameters(): number {
    return [...this.weights.values()].reduce((sum, { data }) => sum + data.length, 0);
  }

  /** Logits of every part of the answer, read at the last token: [row, lookup · value]. */
  logits(ids: Int32Array, tape: Tape): Matrix {
    const length = contextOf(this.task);
    let x = tape.embed(ids, this.weight("embedding.weight"), this.weight("positions.weight"), length);
    for (let layer = 0; layer < this.arm.nLayers; layer++)
      x = this.layer(x, `blocks.${layer}.`, layer === this.arm.nLayers - 1, tape);
    return tape.linear(tape.norm(x, this.weight("norm.weight")), this.weight("unembedding.weight"));
  }

  private weight(name: string): Matrix {
    return this.weights.get(name)!;
  }

  private layer(x: Matrix, prefix: string, isLast: boolean, tape: Tape): Matrix {
    const [length, { nHeads, dFf }] = [contextOf(this.task), this.arm];
    const [wQ, wK, wV, wO] = [..."qkvo"].map((name) => this.weight(`${prefix}attention.${name}_proj.weight`));
    const normed = tape.norm(x, this.weight(`${prefix}attention_norm.weight`));
    const z = isLast
      ? attendLast(tape, normed, tape.linear(tape.last(normed, length), wQ), [wK, wV], nHeads)
      : attend(tape, [tape.linear(normed, wQ), tape.linear(normed, wK), tape.linear(normed, wV)], nHeads, length);
    const after = tape.add(isLast ? tape.last(x, length) : x, tape.linear(z, wO));
    if (!dFf) return after;
    const [up, upBias, down, downBias] = ["0.weight", "0.bias", "2.weight", "2.bias"].map((name) =>
      this.weight(`${prefix}ffn.${name}`),
    );
    const inner = tape.bias(tape.linear(tape.norm(after, this.weight(`${prefix}ffn_norm.weight`)), up), upBias);
    return tape.add(after, tape.bias(tape.linear(tape.gelu(inner), down), downBias));
  }
}

/** Names and sizes [output, input] of all weights; gains and biases have one row. */
function shapesOf(task: Task, { nHeads, dHead, nLayers, dFf }: Arm, dModel: number): [string, number, number][] {
  const wide = nHeads * dHead;
  const layers = Array.from({ length: nLayers }, (_, layer): [string, number, number][] => {
    const prefix = `blocks.${layer}.`;
    const ffn: [string, number, number][] = [
      [`${prefix}ffn_norm.weight`, 1, dModel],
      [`${prefix}ffn.0.weight`, dFf, dModel],
      [`${prefix}ffn.0.bias`, 1, dFf],
      [`${prefix}ffn.2.weight`, dModel, dFf],
      [`${prefix}ffn.2.bias`, 1, dModel],
    ];
    return [
      [`${prefix}attention_norm.weight`, 1, dModel],
      [`${prefix}attention.q_proj.weight`, wide, dModel],
      [`${prefix}attention.k_proj.weight`, wide, dModel],
      [`${prefix}attention.v_proj.weight`, wide, dModel],
      [`${prefix}attention.o_proj.weight`, dModel, wide],
      ...(dFf ? ffn : []),
    ];
  });
  return [
    ["embedding.weight", vocabularyOf(task), dModel],
    ["positions.weight", contextOf(task), dModel],
    ...layers.flat(),
    ["norm.weight", 1, dModel],
    ["unembedding.weight", task.lookups * task.nValues, dModel],
  ];
}

/** Adam, with a rate that falls to zero over the last steps. */
export class Trainer {
  private readonly mean: Float64Array[];
  private readonly square: Float64Array[];
  private step = 0;

  constructor(
    readonly model: LookupModel,
    readonly steps: number,
  ) {
    const sizes = [...model.weights.values()].map(({ data }) => data.length);
    [this.mean, this.square] = [sizes, sizes].map((each) => each.map((size) => new Float64Array(size)));
  }

  /** One step on these rows; returns their loss before it. */
  learn({ ids, answers }: Rows): number {
    const tape = new Tape();
    const loss = tape.crossEntropy(this.model.logits(ids, tape), answers);
    tape.backward();
    const rate = RATE * Math.min(1, (this.steps - this.step) / (0.3 * this.steps));
    this.step += 1;
    const [size, correction] = [rate / (1 - 0.9 ** this.step), 1 - 0.999 ** this.step];
    let number = 0;
    for (const { data, grad } of this.model.weights.values()) {
      const [mean, square] = [this.mean[number], this.square[number++]];
      for (let at = 0; at < data.length; at++) {
        mean[at] = 0.9 * mean[at] + 0.1 * grad[at];
        square[at] = 0.999 * square[at] + 0.001 * grad[at] ** 2;
        data[at] -= (size * mean[at]) / (Math.sqrt(square[at] / correction) + 1e-8);
      }
      grad.fill(0);
    }
    return loss;
  }
}
