// One or many trained in a published site draws Python's rows and weights, and learns as Python does.
import { expect, test } from "vitest";
import { normalBelow, Tape } from "../../src/source/published/lab/one-or-many/backward";
import { interval, oneOrMany } from "../../src/source/published/lab/one-or-many/experiment";
import { LookupModel, Trainer } from "../../src/source/published/lab/one-or-many/lookup-model";
import {
  armsOf,
  drawRows,
  PARTITION,
  partitionArms,
  TASKS,
} from "../../src/source/published/lab/one-or-many/lookup-task";
import { TorchRandom } from "../../src/source/published/lab/one-or-many/torch-random";
import python from "./lab-answers.json";

const BATCH = 128;
const ALL = [...TASKS, PARTITION];
type Lookup = (typeof python.lookups)[number];

function modelOf({ task: named, arm: called, d_model, seed }: Lookup): LookupModel {
  const task = ALL.find(({ name }) => name === named)!;
  const arm = [...armsOf(task.lookups, d_model), ...partitionArms(d_model)].find(({ name }) => name === called)!;
  return new LookupModel(task, arm, d_model, seed);
}

test("tasks and arms are Python's", () => {
  const { arms, partition, tasks } = python.plans;
  const plain = ({ name, nHeads, dHead, nLayers, dFf }: ReturnType<typeof armsOf>[number]) => ({
    name,
    n_heads: nHeads,
    d_head: dHead,
    n_layers: nLayers,
    d_ff: dFf,
  });
  expect(armsOf(2, 32).map(plain)).toEqual(arms);
  expect(partitionArms(16).map(plain)).toEqual(partition);
  expect(
    ALL.map(({ name, kind, lookups, nKeys, nValues }) => ({ name, kind, lookups, n_keys: nKeys, n_values: nValues })),
  ).toEqual(tasks);
});

test.each(python.lookups)("$arm on $task: rows, weights and losses are Python's", (told) => {
  const model = modelOf(told);
  expect(model.nParameters).toBe(told.n_parameters);
  expect([...model.weights.keys()]).toEqual(Object.keys(told.first));
  for (const [name, last] of Object.entries(told.first as unknown as Record<string, number[]>))
    last.forEach((number, at) => expect(model.weights.get(name)!.data.at(at - 3)).toBeCloseTo(number, 5));
  const random = new TorchRandom(told.seed);
  const trainer = new Trainer(model, told.losses.length);
  told.losses.forEach((loss, step) => {
    const rows = drawRows(model.task, BATCH, random);
    if (!step) {
      expect([...rows.ids.subarray(0, told.row.length)]).toEqual(told.row);
      expect([...rows.answers.subarray(0, told.answer.length)]).toEqual(told.answer);
    }
    expect(Math.abs(trainer.learn(rows) - loss)).toBeLessThan(1e-4);
  });
});

test("a gradient is the slope of the loss, in every matrix of a model with two layers and an FFN", () => {
  const arm = { name: "", nHeads: 2, dHead: 4, nLayers: 2, dFf: 6 };
  const model = new LookupModel(TASKS[0], arm, 8, 1);
  const { ids, answers } = drawRows(TASKS[0], 4, new TorchRandom(5));
  const lossNow = () => {
    const tape = new Tape();
    const loss = tape.crossEntropy(model.logits(ids, tape), answers);
    return { loss, tape };
  };
  lossNow().tape.backward();
  for (const [name, { data, grad }] of model.weights) {
    const at = grad.indexOf(Math.max(...grad));
    const [before, step] = [data[at], 1e-5];
    data[at] = before + step;
    const above = lossNow().loss;
    data[at] = before - step;
    const slope = (above - lossNow().loss) / (2 * step);
    data[at] = before;
    expect(Math.abs(slope - grad[at]), name).toBeLessThan(1e-7);
    expect(grad[at], name).not.toBe(0);
  }
});

test("a run tells of itself as the server does", () => {
  const told = [...oneOrMany({ experiment: "partition", d_model: 8, heads: [2], seeds: 2, steps: 20 } as never)];
  expect(told[0].values).toEqual({ event: "begun", arms: ["2 heads"] });
  expect(told).toHaveLength(2);
  const { values } = told[1];
  if (values.event !== "outcome") throw new Error("no outcome");
  expect(values).toMatchObject({ arm: "2 heads", n_heads: 2, d_head: 4, task: PARTITION.name });
  expect(values.accuracies).toHaveLength(2);
  expect(values.parts_right.every((share) => share > 0.1)).toBe(true);
  expect(() => [...oneOrMany({ experiment: "partition", d_model: 8, heads: [3] } as never)]).toThrow(
    "3 heads do not divide a width of 8; choose from 1, 2, 4, 8",
  );
});

test("the interval is Python's, and the normal distribution's own", () => {
  const [low, high] = interval([0.5, 0.75, 1], 0.75);
  expect([low, high]).toEqual(python.interval.map((each) => expect.closeTo(each, 10)));
  for (const [value, share] of [
    [0, 0.5],
    [1.96, 0.9750021],
    [-1.96, 0.0249979],
    [9, 1],
  ])
    // prettier-ignore
    expect(normalBelow(value)).toBeCloseTo(share, 7);
});
