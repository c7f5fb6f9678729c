import { describe, expect, test } from "vitest";
import type { Finding, Roles, RoleTrial } from "../../src/source/source";
import {
  roleScores,
  asRole,
  evidenceRows,
  findingsOf,
  NAMELESS,
  nearest,
  trialOf,
} from "../../src/microscope/state/roles";

const piece = {
  measure: "attention: induction",
  score: 0.86,
  low: 0.84,
  high: 0.88,
  rival: 0.01,
  rival_name: "the earlier copy",
  threshold: 0.35,
  p: 1e-9,
};
const finding = (head: string, role: string, strongest: boolean): Finding => ({
  head,
  role,
  strongest,
  p: 1e-7,
  evidence: [piece],
  ablated: null,
});
const byHead = <T>(values: T[]) => Object.fromEntries(values.map((value, head) => [`0.${head}`, value]));
const trial = (role: string, scores: (number | null)[], rivals: number[], tested = true): RoleTrial => ({
  role,
  scores: byHead(scores),
  rivals: byHead(rivals),
  tested,
  sentence: "",
  paper: "",
  why_not: "",
  probe: "",
  n_inputs: 32,
  n_tokens: 0,
  n_heads: 3,
  task: "",
  task_score: null,
  baselines: {},
  named: [],
  measure: "",
  threshold: 0.5,
  control: null,
  link: "",
});
const roles: Roles = {
  state: "tested",
  untested: 0,
  ordinary: [],
  named: 1,
  without: 2,
  headline: "",
  recipe: "",
  findings: [finding("0.1", "first token", false), finding("0.1", "induction", true)],
  trials: [
    trial("previous token", [0.3, 0, 0.1], [0.2, 0, 0]),
    trial("induction", [0.2, 0.86, null], [0, 0.01, 0]),
    trial("next token", [0.9, 0.9, 0.9], [0, 0, 0], false),
  ],
};

describe("roles", () => {
  test("the strongest role comes first", () => {
    expect(findingsOf(roles, "0.1").map((found) => found.role)).toEqual(["induction", "first token"]);
    expect(findingsOf(roles, "0.0")).toEqual([]);
  });
  test("the grid is given the scores of the named heads alone", () => {
    expect(
      [...roleScores(roles, asRole("induction"), ["0.0", "0.1", "0.2"])].map((score) => Number(score.toFixed(2))),
    ).toEqual([NaN, 0.86, NaN]);
    expect([...roleScores(roles, NAMELESS, ["0.0", "0.1", "0.2"])]).toEqual([1, NaN, 1]);
    expect(trialOf(roles, asRole("induction"))?.role).toBe("induction");
    expect(trialOf(roles, NAMELESS)).toBeUndefined();
  });
  test("a nameless head shows where its lead was largest, among roles that were tested", () => {
    expect(nearest(roles, "0.0", 2).map((row) => row.name)).toEqual(["induction", "previous token"]);
    expect(nearest(roles, "0.2", 3).map((row) => row.name)).toEqual(["previous token"]);
  });
  test("a finding's rows carry interval, rival, threshold, and what is lost without the head", () => {
    const lost = { task: "loss on the second copy, nats per token", whole: -0.7, loss: 4.4, low: 3.6, high: 5.1 };
    const [row, without] = evidenceRows({ ...finding("0.1", "induction", true), ablated: lost });
    expect(row).toMatchObject({
      text: ".86",
      note: "next best .01",
      interval: [0.84, 0.88],
      chance: [0, 0.01],
      threshold: 0.35,
    });
    expect(without).toMatchObject({ text: "4.40", note: "nats per token", interval: [3.6, 5.1] });
  });
});
