// One or many, trained here: all arms on one task, or one width split into heads; app/pages/one_or_many.py in the browser.
import type { components } from "../../../../api";
import type { StreamEvent } from "../../../event-stream";
import { Problem } from "../../../problem";
import { Tape } from "./backward";
import { LookupModel, Trainer } from "./lookup-model";
import { armsOf, drawRows, PARTITION, partitionArms, TASKS, type Arm, type Task } from "./lookup-task";
import { TorchRandom } from "./torch-random";

type Schemas = components["schemas"];
type Asked = Schemas["RunRequest"];
type Outcome = Required<Schemas["OutcomeFrame"]>;
type Told = Required<Schemas["RunBegun"]> | Outcome;

const ARMS_WIDTH = 32;
const BATCH = 128;
const TEST_ROWS = 2048;
const TEST_SEED = 1_000_003;
const SOLVED = 0.95;
const T95 = [12.706, 4.303, 3.182, 2.776, 2.571]; // Student's t, two-sided 95 %, by degrees of freedom

export function* oneOrMany(asked: Asked): Generator<StreamEvent<Told>> {
  const { experiment, task = 0, d_model: dModel = 16, heads = [], seeds = 3, steps = 600 } = asked;
  const every = experiment === "arms" ? armsOf(TASKS[task].lookups, ARMS_WIDTH) : partitionArms(dModel);
  const unknown = heads.find((count) => experiment === "partition" && !every.some(({ nHeads }) => nHeads === count));
  if (unknown !== undefined)
    throw new Problem(
      "InputError",
      `${unknown} heads do not divide a width of ${dModel}; choose from ${every.map(({ nHeads }) => nHeads).join(", ")}`,
    );
  const chosen = experiment === "arms" || !heads.length ? every : every.filter(({ nHeads }) => heads.includes(nHeads));
  yield { values: { event: "begun", arms: chosen.map(({ name }) => name) }, arrays: {} };
  for (const arm of chosen) {
    const [task_, width] = experiment === "arms" ? [TASKS[task], ARMS_WIDTH] : [PARTITION, dModel];
    const runs = Array.from({ length: seeds }, (_, seed) => train(task_, arm, { width, seed, steps }));
    yield { values: outcome(task_, arm, runs), arrays: {} };
  }
}

interface Run {
  parameters: number;
  accuracy: number; // of whole answers
  partsRight: number;
}

function train(task: Task, arm: Arm, { width, seed, steps }: { width: number; seed: number; steps: number }): Run {
  const model = new LookupModel(task, arm, width, seed);
  const trainer = new Trainer(model, steps);
  const random = new TorchRandom(seed);
  for (let step = 0; step < steps; step++) trainer.learn(drawRows(task, BATCH, random));
  return { parameters: model.nParameters, ...evaluate(model) };
}

function evaluate(model: LookupModel): Pick<Run, "accuracy" | "partsRight"> {
  const { ids, answers } = drawRows(model.task, TEST_ROWS, new TorchRandom(TEST_SEED));
  const { lookups, nValues } = model.task;
  const { data } = model.logits(ids, new Tape());
  const right = Array.from(answers, (answer, at) => {
    const part = data.subarray(at * nValues, (at + 1) * nValues);
    return part.indexOf(Math.max(...part)) === answer;
  });
  const whole = right.filter((_, at) => at % lookups === 0 && right.slice(at, at + lookups).every(Boolean));
  return { accuracy: whole.length / TEST_ROWS, partsRight: right.filter(Boolean).length / right.length };
}

function outcome(task: Task, { name, nHeads, dHead, nLayers, dFf }: Arm, runs: Run[]): Outcome {
  const accuracies = runs.map(({ accuracy }) => rounded(accuracy));
  const mean = accuracies.reduce((sum, each) => sum + each, 0) / accuracies.length;
  const [low, high] = interval(accuracies, mean);
  return {
    event: "outcome",
    task: task.name,
    arm: name,
    n_heads: nHeads,
    d_head: dHead,
    n_layers: nLayers,
    d_ff: dFf,
    n_parameters: runs[0].parameters,
    accuracies,
    parts_right: runs.map(({ partsRight }) => rounded(partsRight)),
    mean: rounded(mean),
    low: rounded(low),
    high: rounded(high),
    caught_up: mean >= SOLVED,
  };
}

/** Student's t interval over the seeds, clipped to 0–1; with one seed it is 0–1. */
export function interval(accuracies: number[], mean: number): [number, number] {
  const count = accuracies.length;
  if (count < 2) return [0, 1];
  const square = accuracies.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (count - 1);
  const half = (T95[count - 2] * Math.sqrt(square)) / Math.sqrt(count);
  return [Math.max(0, mean - half), Math.min(1, mean + half)];
}

const rounded = (value: number) => Math.round(value * 1e4) / 1e4;
