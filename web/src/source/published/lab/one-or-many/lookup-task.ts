// Tasks that ask for several values at once, and the arms that are compared; lab/teach/lookup_tasks.py in the browser.
import type { TorchRandom } from "./torch-random";

export interface Task {
  name: string;
  kind: "keys" | "roles";
  lookups: number;
  nKeys: number;
  nValues: number;
}

/** One way to spend the parameters. */
export interface Arm {
  name: string;
  nHeads: number;
  dHead: number;
  nLayers: number;
  dFf: number;
}

const SIZES = { lookups: 2, nKeys: 6, nValues: 8 };
export const TASKS: Task[] = [
  { name: "two keys, two values", kind: "keys", ...SIZES },
  { name: "a subject and its modifier", kind: "roles", ...SIZES },
];
export const PARTITION: Task = { name: "two keys of eight", kind: "keys", ...SIZES, nKeys: 8 };

/** k heads, and three models of one head with as many parameters. */
export function armsOf(lookups: number, dModel: number): Arm[] {
  const dHead = dModel / lookups;
  const spare = 4 * dModel * dModel - 4 * dModel * dHead;
  const one = { nHeads: 1, dHead, nLayers: 1, dFf: 0 };
  return [
    { ...one, name: `${lookups} heads`, nHeads: lookups },
    { ...one, name: "one wide head", dHead: dModel },
    { ...one, name: "one head, more layers", nLayers: lookups },
    { ...one, name: "one head, bigger FFN", dFf: Math.floor(spare / (2 * dModel)) },
  ];
}

/** One width divided into 1, 2, 4 … heads. */
export function partitionArms(dModel: number): Arm[] {
  const counts = Array.from({ length: Math.log2(dModel) + 1 }, (_, power) => 2 ** power);
  return counts.map((nHeads) => ({
    name: `${nHeads} head${nHeads > 1 ? "s" : ""}`,
    nHeads,
    dHead: dModel / nHeads,
    nLayers: 1,
    dFf: 0,
  }));
}

/** Every possible question: the keys it names, in order. */
export function questionsOf({ kind, lookups, nKeys }: Task): number[][] {
  const keys = Array.from({ length: nKeys }, (_, key) => key);
  if (kind === "roles") return [keys.slice(0, lookups)];
  let found: number[][] = [[]];
  for (let place = 0; place < lookups; place++)
    found = found.flatMap((begun) => keys.filter((key) => !begun.includes(key)).map((key) => [...begun, key]));
  return found;
}

export const contextOf = ({ nKeys }: Task): number => nKeys + 1;
export const vocabularyOf = (task: Task): number => task.nKeys * task.nValues + questionsOf(task).length;

export interface Rows {
  ids: Int32Array; // [row, token]
  answers: Int32Array; // [row, lookup]
}

/** Random rows and their answers; equal generators draw Python's. */
export function drawRows(task: Task, count: number, random: TorchRandom): Rows {
  const { nKeys, nValues, lookups } = task;
  const values = random.integers(nValues, count * nKeys);
  const order = random.uniform(count * nKeys);
  const questions = questionsOf(task);
  const asked = random.integers(questions.length, count);
  const length = contextOf(task);
  const [ids, answers] = [new Int32Array(count * length), new Int32Array(count * lookups)];
  for (let row = 0; row < count; row++) {
    const keys = Array.from({ length: nKeys }, (_, key) => key);
    keys.sort((one, other) => order[row * nKeys + one] - order[row * nKeys + other]);
    keys.forEach((key, place) => (ids[row * length + place] = key * nValues + values[row * nKeys + key]));
    ids[row * length + nKeys] = nKeys * nValues + asked[row];
    questions[asked[row]].forEach((key, part) => (answers[row * lookups + part] = values[row * nKeys + key]));
  }
  return { ids, answers };
}
