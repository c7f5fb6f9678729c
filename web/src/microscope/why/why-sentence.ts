// The split of one arrow in words, with names and tokens marked.
import { shares_of_total, before_layers } from "../../../../src/headscope/heads/sentences.json";
import { fill, fixed, signed, share as percentOf, visible } from "../../format";
import type { Why, WriterShare } from "../../source/source";
import { words } from "../../words/words";

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

export const marked = (token: string) => `*${said(token)}*`;

export const plain = (value: number) => fixed(value, 2);

const signOf = (why: Why) => (why.total < 0 ? -1 : 1);
const mostOf = (why: Why) => words.why.sentences[why.total < 0 ? "most_negative" : "largest"];
const ranked = (why: Why) => {
  const sign = signOf(why);
  return [...why.answered].sort((a, b) => (b.value - a.value) * sign);
};

/** The component on the key side that contributes most in the direction of the total, and can be cut. */
export const mainWriter = (why: Why): WriterShare | undefined =>
  ranked(why).find((share) => share.kind !== "reader") ?? why.answered[0];

function named({ name, kind }: WriterShare): string {
  const template: string | undefined = (words.why.writers as Record<string, string>)[kind];
  return template ? fill(template, { name: `**${name}**` }) : `**${writerName(name)}**`;
}

/** Where a head that wrote to the key had attended most from there. */
function attended(share: WriterShare, why: Why): string {
  const say = words.why.sentences;
  if (!share.read) return "";
  const { position, token } = share.read.place;
  const given = { key: marked(why.key.token), token: marked(token), weight: percentOf(share.read.weight) };
  if (position === why.key.position) return fill(say.attended_itself, given);
  const where = position === why.key.position - 1 ? say.token_before : position === 0 ? say.first_token : "";
  return fill(say.attended, { ...given, where });
}

/** The weight and the score. */
export function firstSentence(why: Why): string {
  const say = words.why.sentences;
  const [query, key] = [why.query, why.key].map(({ token, position }) =>
    fill(say.place, { token: marked(token), position }),
  );
  const given = { query, key, head: `**${why.head}**` };
  if (why.n_visible === 1) return fill(say.single, { ...given, score: plain(why.score) });
  const against = { mean: say.mean, others: say.others }[why.minus] ?? fill(say.other, { position: why.minus });
  const [total, side] = [plain(Math.abs(why.total)), why.total < 0 ? say.below : say.above];
  return fill(say.gives, { ...given, weight: percentOf(why.weight), total, side, against });
}

function reason(why: Why): string {
  const say = words.why.sentences;
  const [sign, shares, total, place] = [signOf(why), ranked(why), Math.abs(why.total), why.position_part];
  const [top, against] = [shares[0], shares[shares.length - 1]];
  const given = { most: mostOf(why), name: named(top), part: signed(top.value) };
  if (place * why.total > 0 && Math.abs(place) >= shares_of_total.distance_decides * total) {
    const back = why.query.position - why.key.position;
    const forms = back < 0 ? [say.ahead, say.ahead_one] : [say.back, say.back_one];
    const offset = fill(forms[Number(Math.abs(back) === 1)], { count: Math.abs(back) });
    return fill(say.distance, { offset, part: plain(Math.abs(place)), side: place < 0 ? say.lower : say.higher });
  }
  if (shares.every((share) => before_layers.includes(share.kind))) return say.unwritten;
  if (-against.value * sign > total) {
    const [up, down] = sign > 0 ? [top, against] : [against, top];
    const parts = { more: signed(up.value), less: signed(down.value) };
    return fill(say.both_ways, { up: named(up), down: named(down), ...parts });
  }
  if (top.value * sign < shares_of_total.one_component_explains * total) return fill(say.none_alone, given);
  return fill(say.mainly, { ...given, attended: attended(top, why) });
}

/** What gives the key its score, the query side, and a learned sink. */
export function secondSentence(why: Why): string {
  const say = words.why.sentences;
  if (why.n_visible === 1) return "";
  const found = [reason(why)];
  const [first, second] = [...why.asked]
    .filter((share) => share.value * signOf(why) > shares_of_total.query_side_is_named * Math.abs(why.total))
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
    .map((share) => fill(say.asked_part, { name: named(share), part: signed(share.value) }));
  if (first && found[0] !== say.unwritten)
    found.push(fill(second ? say.asked_two : say.asked, { most: mostOf(why), first, second }));
  if (why.sink !== null) found.push(fill(say.sink, { weight: percentOf(why.sink) }));
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
