// A trace in words: what headscope/heads/explain/trace.py says, with names and tokens marked.
import { share as percentOf, signed, visible } from "../../format";
import type { Trace } from "../../source/source";
import { words } from "../../words/words";
import { said, writerName } from "../why/why-sentence";
import type { TraceLine } from "./trace-layout";

/** The prediction and its largest contributions. */
export function headline(trace: Trace): string {
  const say = words.trace;
  const [token, after] = [said(trace.token.text), said(trace.position.token)];
  const start = trace.minus
    ? say.rather(token, said(trace.minus.text), after, signed(trace.total), trace.capped)
    : say.logit(token, after, signed(trace.total), trace.capped);
  const largest = trace.steps.slice(0, 3).map((step) => `**${writerName(step.name)}** ${signed(step.share)}`);
  return `${start} ${largest.length ? say.largest(...largest) : say.none(Math.round(trace.floor * 100))}`;
}

/** The largest head that works through other tokens than the first. */
export function underline(trace: Trace): string {
  const head = trace.steps.find((step) => step.kind === "head" && !step.rests);
  const read = head?.reads[0];
  if (!head || !read) return "";
  const part = [signed(read.share), said(read.place.token), read.place.position, percentOf(read.weight)] as const;
  return words.trace.throughHead(head.name, head.share > 0, signed(head.share), ...part);
}

/** What a line joins and what it stands for, with the unit of its number. */
export function tableRow(trace: Trace, line: TraceLine): (string | number)[] {
  const say = words.trace;
  const { writer, head, total } = line.says;
  const kind = { adds: say.adds, value: say.carries, key: say.found, query: say.asks }[line.kind];
  const { logit, score, weight } = say.units;
  // what a writer of a key had read is known by its weight alone
  const unit = line.kind === "adds" ? logit : line.kind === "value" ? (total === 0 ? weight : logit) : score;
  const from = line.kind === "value" ? visible(writer) : writerName(writer);
  return [from, line.kind === "adds" ? visible(trace.token.text) : head, kind, line.value, unit];
}
