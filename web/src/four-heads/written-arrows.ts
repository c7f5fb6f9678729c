// Words and arrows of Four heads as people write them.
import type { components } from "../api";
import { Problem } from "../source/problem";

type Schemas = components["schemas"];
type Arrow = [number, number];

const MOST_WORDS = 64;
const refuse = (says: string) => new Problem("InputError", says);

/** Words and punctuation marks, one token each. */
export function splitWords(sentence: string): string[] {
  const words = sentence.match(/[\p{L}\p{N}\p{M}_'’-]+|[^\p{L}\p{N}\p{M}_\s]/gu) ?? [];
  if (words.length < 2)
    throw refuse(
      `the sentence has ${words.length ? `one word, '${words[0]}'` : "no word"}; attention needs at least two, as in 'The tired horse crossed the narrow road because it was late'`,
    );
  if (words.length > MOST_WORDS)
    throw refuse(
      `the sentence has ${words.length} words; at most ${MOST_WORDS} can be fitted here. For longer texts use a trained model`,
    );
  return words;
}

/** A sentence of one's own. What its heads should find is to be painted, but for the word before. */
export function ownSentence(
  sentence: string,
  names: Schemas["SentenceResponse"]["targets"],
): Schemas["SentenceResponse"] {
  const words = splitWords(sentence);
  const before = words.slice(1).map((_, at): Arrow => [at + 1, at]);
  const targets = names.map(({ name, asks }, at) => ({
    name,
    asks,
    arrows: at === names.length - 1 ? before : [],
    shares: [],
  }));
  return { sentence, words, targets };
}

/** `it > horse .7, it > road .3`: arrows and the share of each; those without a number get equal parts of the rest. */
export function parseArrows(text: string, words: string[]): { arrows: Arrow[]; shares: number[] } {
  const given = new Map<string, { arrow: Arrow; share: number | null }>();
  for (const item of text
    .split(/[,;\n]+/)
    .map((part) => part.trim())
    .filter(Boolean)) {
    const numbered = /^(.*[^\s>→])\s+([0-9]*\.?[0-9]+)\s*(%?)$/.exec(item);
    const arrow = arrowOf(numbered ? numbered[1] : item, item, words);
    if (given.has(arrow.join())) throw refuse(`'${item}' is given twice; give each arrow once, with one share`);
    const share = numbered ? Number(numbered[2]) / (numbered[3] ? 100 : 1) : null;
    if ((share ?? 0) > 1)
      throw refuse(`'${item}' gives a share of ${share}; a share is a number from 0 to 1, or 0% to 100%`);
    given.set(arrow.join(), { arrow, share });
  }
  const all = [...given.values()];
  return {
    arrows: all.map(({ arrow }) => arrow),
    shares: all.map((each) => each.share ?? partOf(each.arrow, all, words)),
  };
}

function partOf([from, to]: Arrow, all: { arrow: Arrow; share: number | null }[], words: string[]): number {
  const row = all.filter(({ arrow }) => arrow[0] === from);
  const taken = row.reduce((sum, { share }) => sum + (share ?? 0), 0);
  if (taken >= 1)
    throw refuse(
      `the numbers of '${words[from]}' (${from}) add up to ${Number(taken.toPrecision(6))} and leave nothing for '${words[to]}'; make them smaller, or give it a number too`,
    );
  return (1 - taken) / row.filter(({ share }) => share === null).length;
}

function arrowOf(text: string, whole: string, words: string[]): Arrow {
  const ends = text.split(/\s*(?:->|→|>)\s*/);
  if (ends.length !== 2 || !ends[0] || !ends[1])
    throw refuse(`could not read '${whole}' as an arrow; write it like this: crossed > horse`);
  return [placeOf(ends[0], words), placeOf(ends[1], words)];
}

function placeOf(word: string, words: string[]): number {
  const numbered = /^(.*)@(\d+)$/.exec(word);
  if (numbered && words[Number(numbered[2])] === numbered[1]) return Number(numbered[2]);
  const places = words.flatMap((each, at) => (each === word ? [at] : []));
  if (places.length === 1) return places[0];
  if (!places.length) throw refuse(`there is no word '${word}' in this sentence: ${words.join(" ")}`);
  throw refuse(
    `'${word}' occurs ${places.length} times; choose from ${places.map((each) => `${word}@${each}`).join(", ")}`,
  );
}
