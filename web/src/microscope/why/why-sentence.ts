// The split of one arrow in words. No sentence without its numbers.
import { fixed, short, signed, visible } from "../../format";
import type { Why, WriterShare } from "../../source/source";
import { words } from "../../words/words";

const ENOUGH = 0.4; // of the total, from which on one writer explains an arrow
const MOSTLY = 0.5; // of the total, from which on the place decides
const MARKED = 0.5; // weight from which on a head marked a token as the one after another

/** A writer's name as it is read: MLP 3, embedding, 4.3. */
export function writerName(name: string): string {
  const { embedding, position, bias } = words.why;
  if (name === "embedding") return embedding;
  if (name === "position embedding") return position;
  if (name === "bias") return bias;
  return name.replace(/^mlp /, "MLP ");
}

/** A token inside a sentence, whose asterisks mark nothing. */
export const said = (token: string) => visible(token).replaceAll("*", "∗");

export const plain = (value: number) => fixed(value, 2);

/** The writer at the key that an arrow is explained by: the largest with the sign of the total. */
export function mainWriter(why: Why): WriterShare | undefined {
  const sign = Math.sign(why.total) || 1;
  return why.answered.find((share) => share.value * sign > 0 && share.kind !== "reader") ?? why.answered[0];
}

function reason(share: WriterShare, key: number): string {
  const say = words.why;
  const name = writerName(share.name);
  if (share.kind === "embedding") return say.word;
  if (share.kind !== "head" || !share.read) return say.made(name);
  const { weight } = share.read;
  const { position, token } = share.read.place;
  if (position === key - 1 && weight > MARKED) return say.marked(name, said(token));
  if (position === 0 && key > 1) return say.rested(name);
  return position === key ? say.itself(name) : say.brought(name, said(token));
}

/** Why the head looks there, in one sentence. */
export function firstSentence(why: Why): string {
  const say = words.why;
  const key = said(why.key.token);
  if (why.n_visible === 1) return say.single(why.head, plain(why.score));
  const verb = why.total < 0 ? say.passesOver : why.key.position === 0 ? say.restsOn : say.reads;
  const top = mainWriter(why)!;
  const total = plain(why.total);
  if (why.position_part * why.total > 0 && Math.abs(why.position_part) >= MOSTLY * Math.abs(why.total))
    return say.place(why.head, verb, key, plain(why.position_part), total, why.query.position - why.key.position);
  if (why.answered.length === 1) return say.twoWords(why.head, verb, key, said(why.query.token), total);
  const against = why.answered.find((share) => share.value * top.value < 0);
  if (against && Math.abs(against.value) > Math.abs(why.total)) {
    const [up, down] = top.value > 0 ? [top, against] : [against, top];
    const named = [writerName(up.name), signed(up.value), writerName(down.name), signed(down.value)] as const;
    return say.bothWays(why.head, verb, key, total, ...named);
  }
  if (Math.abs(top.value) < ENOUGH * Math.abs(why.total))
    return say.noneAlone(why.head, verb, key, total, writerName(top.name), signed(top.value));
  return say.because(why.head, verb, key, reason(top, why.key.position), plain(top.value), total);
}

/** The next writer, who asked, and what is due to the place or a sink. */
export function secondSentence(why: Why): string {
  const say = words.why;
  if (why.n_visible === 1) return "";
  const top = mainWriter(why)!;
  const next = why.answered.find((share) => share !== top);
  const found: string[] = [];
  if (next) {
    const same = next.value * top.value > 0 && next.read && next.read.place.position === top.read?.place.position;
    found.push((same ? say.same : say.next)(writerName(next.name), signed(next.value)));
  }
  const asking = why.asked.filter((share) => share.value * why.total > 0).slice(0, 3);
  const list = asking.map((share) => `**${writerName(share.name)}** (${signed(share.value)})`).join(", ");
  if (list) found.push(say.asked(list, said(why.query.token)));
  if (Math.abs(why.position_part) >= 0.1 * Math.abs(why.total)) found.push(say.placePart(signed(why.position_part)));
  if (why.sink !== null) found.push(say.sink(short(why.sink)));
  return found.join(" ");
}
