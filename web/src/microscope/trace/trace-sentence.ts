// A trace in two sentences, made from its numbers.
import { signed } from "../../format";
import type { Trace } from "../../source/source";
import { words } from "../../words/words";
import { plain, said, writerName } from "../why/why-sentence";

const MARKED = 0.5; // weight on the token before, from which on a head marked a token as the one after it

/** Who brought the prediction, and who marked what it was copied from. */
export function headline(trace: Trace): string {
  const token = said(trace.token.text);
  const head = trace.steps.find((step) => step.kind === "head" && !step.rests && step.reads.length && step.share > 0);
  if (!head) return words.trace.noHead(token);
  const read = head.reads[0];
  const mark = read.answered.find(
    (share) => share.kind === "head" && share.value > 0 && share.read?.place.position === read.place.position - 1,
  );
  const copied = said(read.place.token) === token && mark?.read && mark.read.weight > MARKED;
  return copied
    ? words.trace.copied(token, mark.name, said(mark.read!.place.token), head.name)
    : words.trace.carried(token, head.name, said(read.place.token), signed(read.share));
}

export function underline(trace: Trace): string {
  const first = trace.steps[0];
  return first ? words.trace.largest(writerName(first.name), signed(first.share), plain(trace.total)) : "";
}
