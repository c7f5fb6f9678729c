// Find the glossary's words in a text, so that prose explains them without marking each one up.
import { words, type Words } from "../words/words";

export type TermKey = keyof Words["glossary"]["terms"];

export interface Piece {
  text: string;
  term?: TermKey;
}

/** Which term each form stands for, the longest forms first: "logit attribution" before "logit". */
function forms(): [string, TermKey][] {
  return (Object.keys(words.glossary.terms) as TermKey[])
    .flatMap((key) => words.glossary.terms[key].forms.map((form): [string, TermKey] => [form, key]))
    .sort(([a], [b]) => b.length - a.length);
}

export const escaped = (form: string) => form.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
/** A form with a capital inside is a name: KL, W_O. Others may begin a sentence. */
const sameForm = (form: string, found: string) =>
  /[A-Z]/.test(form) ? form === found : form.toLowerCase() === found.toLowerCase();

/** The text in pieces; the first mention of each term that is not in `known` is marked, and added to it. */
export function findTerms(text: string, known: Set<TermKey> = new Set()): Piece[] {
  const all = forms();
  const pattern = new RegExp(
    `(?<![\\p{L}\\p{N}_])(${all.map(([form]) => escaped(form)).join("|")})(?![\\p{L}\\p{N}_])`,
    "giu",
  );
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    const term = all.find(([form]) => sameForm(form, match[0]))?.[1];
    if (!term || known.has(term)) continue;
    known.add(term);
    if (match.index > from) pieces.push({ text: text.slice(from, match.index) });
    pieces.push({ text: match[0], term });
    from = match.index + match[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from) });
  return pieces;
}

/** The terms that a text uses. */
export const termsIn = (text: string): TermKey[] =>
  findTerms(text).flatMap((piece) => (piece.term ? [piece.term] : []));
