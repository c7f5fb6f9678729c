// The split of one arrow in words: what headscope/heads/explain/why.py says, with names and tokens marked.
import { fixed, signed, share as percentOf, visible } from "../../format";
import type { Why, WriterShare } from "../../source/source";
import { words } from "../../words/words";

const ENOUGH = 0.4; // of the total, from which on one component explains an arrow
const MOSTLY = 0.5; // of the total, from which on the distance decides
const WORTH = 0.1; // of the total, from which on the query side's components are named
const UNWRITTEN = ["embedding", "position", "reader"]; // what is there before any layer

/** A component's name as it is read: MLP 3, embedding, 4.3. */
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

const signOf = (why: Why) => (why.total < 0 ? -1 : 1);
const ranked = (why: Why) => {
  const sign = signOf(why);
  return [...why.answered].sort((a, b) => (b.value - a.value) * sign);
};

/** The component on the key side that contributes most in the direction of the total, and can be cut. */
export const mainWriter = (why: Why): WriterShare | undefined =>
  ranked(why).find((share) => share.kind !== "reader") ?? why.answered[0];

function named({ name, kind }: WriterShare): string {
  const say = words.why;
  if (kind === "reader") return say.ownBiases;
  if (kind === "head") return say.headNamed(name);
  return kind === "embedding" || kind === "position" ? say.the(name) : `**${writerName(name)}**`;
}

/** Where a head that wrote to the key had attended most from there. */
function attended(share: WriterShare, why: Why): string {
  const say = words.why;
  if (!share.read) return "";
  const [{ position, token }, key] = [share.read.place, said(why.key.token)];
  const weight = percentOf(share.read.weight);
  if (position === why.key.position) return say.attendedItself(key, weight);
  const where = position === why.key.position - 1 ? say.tokenBefore : position === 0 ? say.firstToken : "";
  return say.attended(key, said(token), where, weight);
}

/** The weight and the score. */
export function firstSentence(why: Why): string {
  const say = words.why;
  const [query, key] = [why.query, why.key].map(({ token, position }) => say.place(said(token), position));
  if (why.n_visible === 1) return say.single(why.head, query, key, plain(why.score));
  const against = { mean: say.aboveMean, others: say.aboveOthers }[why.minus] ?? say.aboveKey(Number(why.minus));
  return say.gives(why.head, query, key, percentOf(why.weight), plain(Math.abs(why.total)), why.total < 0, against);
}

function reason(why: Why): string {
  const say = words.why;
  const [sign, shares] = [signOf(why), ranked(why)];
  const [top, against] = [shares[0], shares[shares.length - 1]];
  if (why.position_part * why.total > 0 && Math.abs(why.position_part) >= MOSTLY * Math.abs(why.total))
    return say.distanceDecides(
      why.query.position - why.key.position,
      plain(Math.abs(why.position_part)),
      why.position_part < 0,
    );
  if (shares.every((share) => UNWRITTEN.includes(share.kind))) return say.unwritten;
  if (-against.value * sign > Math.abs(why.total)) {
    const [up, down] = sign > 0 ? [top, against] : [against, top];
    return say.bothWays(named(up), signed(up.value), named(down), signed(down.value));
  }
  if (top.value * sign < ENOUGH * Math.abs(why.total)) return say.noneAlone(sign < 0, named(top), signed(top.value));
  return say.mainly(sign < 0, signed(top.value), named(top), attended(top, why));
}

/** What gives the key its score, the query side, and a learned sink. */
export function secondSentence(why: Why): string {
  const say = words.why;
  if (why.n_visible === 1) return "";
  const found = [reason(why)];
  const asking = [...why.asked]
    .filter((share) => share.value * signOf(why) > WORTH * Math.abs(why.total))
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
    .slice(0, 2);
  const [first, second] = asking.map((share) => `${named(share)} (${signed(share.value)})`);
  if (first && found[0] !== say.unwritten) found.push(say.asked(why.total < 0, first, second));
  if (why.sink !== null) found.push(say.sink(percentOf(why.sink)));
  return found.join(" ");
}

/** Every component of both sides, with what it had attended to, drawn or not. */
export function tableRows(why: Why): (string | number)[][] {
  const of = (side: string, shares: WriterShare[]) => [
    ...shares.map(({ name, value, read }) => [
      side,
      writerName(name),
      value,
      read ? visible(read.place.token) : "",
      read?.weight ?? "",
    ]),
    ...Object.entries(why.terms).map(([name, value]) => [
      side,
      name === "distance" ? words.why.distance : words.why.cap,
      value,
      "",
      "",
    ]),
  ];
  return [...of(words.why.whoAsked, why.asked), ...of(words.why.whoAnswered, why.answered)];
}
