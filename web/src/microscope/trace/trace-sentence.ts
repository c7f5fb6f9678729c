// A trace in words, with names and tokens marked.
import { fill, share as percentOf, signed, visible } from "../../format";
import type { Trace } from "../../source/source";
import { words } from "../../words/words";
import { marked, writerName } from "../why/why-sentence";
import type { TraceLine } from "./trace-layout";

/** The prediction and its largest contributions. */
export function headline(trace: Trace): string {
  const say = words.trace.sentences;
  const [token, after, minus] = [trace.token.text, trace.position.token, trace.minus?.text ?? ""].map(marked);
  const given = { token, after, minus, total: signed(trace.total), cap: trace.capped ? say.cap : "" };
  const start = fill(trace.minus ? say.rather : say.logit, given);
  const largest = trace.steps.slice(0, 3).map((step) => `**${writerName(step.name)}** ${signed(step.share)}`);
  if (!largest.length) return `${start} ${fill(say.none, { percent: `${Math.round(trace.floor * 100)}%` })}`;
  return `${start} ${fill(largest.length > 1 ? say.largest_many : say.largest, { named: largest.join(", ") })}`;
}

/** The largest head that works through other tokens than the first. */
export function underline(trace: Trace): string {
  const say = words.trace.sentences;
  const head = trace.steps.find((step) => step.kind === "head" && !step.rests);
  const read = head?.reads[0];
  if (!head || !read) return "";
  const moves = head.share > 0 ? say.raises : say.lowers;
  const at = { token: marked(read.place.token), position: read.place.position, weight: percentOf(read.weight) };
  const given = { head: `**${head.name}**`, moves, share: signed(head.share), part: signed(read.share) };
  return fill(say.through_head, { ...given, ...at });
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
