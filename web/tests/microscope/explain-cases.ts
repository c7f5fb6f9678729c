// One arrow and one trace, as they are sent.
import type { Trace, TraceStep, Why, WriterShare } from "../../src/source/source";

export const share = (name: string, kind: string, value: number, read: WriterShare["read"] = null): WriterShare => ({
  name,
  kind,
  value,
  position_part: 0,
  read,
});
export const MARK = share("4.3", "head", 4.3, { place: { position: 6, token: " the" }, weight: 0.96 });
export const WHY: Why = {
  look: "x",
  head: "5.6",
  group: ["5.6"],
  query: { position: 14, token: " the" },
  key: { position: 7, token: " river" },
  weight: 0.55,
  score: 7.66,
  baseline: 0.14,
  total: 7.52,
  minus: "mean",
  n_visible: 15,
  sink: null,
  position_part: 0,
  asked: [share("mlp 3", "mlp", 3.16)],
  answered: [
    MARK,
    share("2.1", "head", 2.05, { place: { position: 6, token: " the" }, weight: 0.98 }),
    share("bias", "reader", 1),
  ],
  terms: {},
  pairs: [[4.3, 2.05, 1]],
  pairs_count: 3,
  pairs_sum: 7.52,
  pairs_size: 7.52,
  error: 0,
};

const nothing = { count: 0, up: 0, down: 0 };
const at = (position: number, token: string) => ({ place: { position, token } });
const READ = { ...at(7, " river"), weight: 0.55, share: 0.8, total: 7.52, asked: [], answered: [MARK] };
export const STEP: TraceStep = {
  name: "5.6",
  kind: "head",
  ...at(14, " the"),
  share: 0.8,
  rests: false,
  note: "",
  left_out: nothing,
  reads: [{ ...READ, values: [], left_out: nothing }],
};
export const TRACE: Trace = {
  look: "x",
  position: { position: 14, token: " the" },
  token: { text: " river", id: 3, probability: 0.45 },
  minus: null,
  total: 10.76,
  constant: 0,
  floor: 0.03,
  capped: false,
  steps: [STEP, { ...STEP, name: "mlp 7", kind: "mlp", share: 5.86, reads: [] }],
  left_out: { count: 64, up: 2.1, down: -1.64 },
};
export const SITES = ["0", "1", "2", "3", "4", "5", "6", "7"];
