// A head's rules: its sentence, the parts of its bar, and every head's score for the grid.
import { short } from "../../format";
import type { HeadWords } from "../../source/source";
import { words } from "../../words/words";
import type { HeadInfo } from "../state/look-statistics";

export type RuleInfo = HeadWords["rules"][number];

const RESTS = 0.15; // as in heads/rules/sentence.py
const SAID = 0.01;
const FIRST = "first token";
export const REST = "rules:rest";
export const GAIN = "rules:gain";
export const asRule = (name: string): string => `rule:${name}`;
export const isRuleScore = (question: string): boolean => /^rules?:/.test(question);
export const ruleOf = (question: string): string | null =>
  question.startsWith("rule:") ? listedAs(question.slice("rule:".length)) : null;

/** The name that a rule has in the list of strongest rules: recent tokens are one entry, however far they reach. */
export const listedAs = (name: string): string => (/^decay [\d.]+$/.test(name) ? "decay" : name);

/** The rules that the sentence names, in its order. */
export function said(head: HeadWords): RuleInfo[] {
  return head.rules.filter((rule) => rule.name !== FIRST && rule.part >= SAID).toSorted((a, b) => b.part - a.part);
}

export const phraseOf = (rule: Pick<RuleInfo, "name" | "phrase">): string => words.rules.phrase(rule.name, rule.phrase);

/** The head in a sentence; in English the one that Python writes. */
export function sentenceOf(head: HeadWords): string {
  const rests = head.first >= RESTS;
  const content = head.on_content ?? 0; // files of older versions hold none
  const unexplained = short(1 - head.rest.value);
  const left = content >= SAID ? words.rules.leftOnContent(unexplained, short(content)) : words.rules.left(unexplained);
  const first = short(head.first);
  const clauses = said(head).map((rule) => clauseOf(rule));
  const { rests: some, hardlyRests, restsOnly, hardlyRestsOnly } = words.rules;
  const whole = clauses.length
    ? (rests ? some : hardlyRests)(first, clauses.join(", "), left)
    : (rests ? restsOnly : hardlyRestsOnly)(first, left);
  return head.example ? `${whole} ${exampleOf(head.example)}` : whole;
}

function exampleOf({ query, key, weight, by_rules }: NonNullable<HeadWords["example"]>): string {
  return words.rules.example(query, key, short(weight), short(by_rules));
}

function clauseOf(rule: RuleInfo): string {
  const [part, phrase] = [short(rule.part), phraseOf(rule)];
  return rule.applies >= 0.995
    ? words.rules.goesTo(part, phrase)
    : words.rules.goesToWhere(part, phrase, String(Math.round(rule.applies * 100)));
}

export interface Piece {
  text: string;
  kind: "text" | "number" | "where";
}

/** The sentence with its numbers, and its places in brackets, set apart; tokens in quotation marks stay as they are. */
export function piecesOf(sentence: string): Piece[] {
  return sentence
    .split(/(“[^”]*”|„[^“]*“|\([^()“]*\d+ %[^()]*\)|−?\d?[.,]\d\d(?!\d))/)
    .filter(Boolean)
    .map((text) => ({ text, kind: text.startsWith("(") ? "where" : /^−?\d?[.,]\d\d$/.test(text) ? "number" : "text" }));
}

export interface Segment {
  from: number;
  to: number;
  name: string; // empty: not explained
  part: number;
}

/** The bar of the rest: one segment per rule that is said, and what is not explained. */
export function segmentsOf(head: HeadWords): Segment[] {
  let at = 0;
  const found = said(head).map((rule) => ({ from: at, to: (at += rule.part), name: rule.name, part: rule.part }));
  return [...found, { from: Math.min(1, at), to: 1, name: "", part: 1 - head.rest.value }];
}

/** For the grid: a measure of every head, or the part of one rule where it is the strongest; else nothing. */
export function ruleScores(
  known: { of: (head: string) => HeadWords | undefined; card: unknown },
  question: string,
  heads: HeadInfo[],
): Float32Array | null {
  if (!known.card) return null;
  const rule = ruleOf(question);
  return Float32Array.from(heads, ({ name }) => {
    const head = known.of(name);
    if (!head) return NaN;
    if (rule !== null) return listedAs(head.strongest ?? "") === rule ? (strongestOf(head)?.part ?? NaN) : NaN;
    return Math.max(0, question === GAIN ? head.gain.value : head.rest.value);
  });
}

const strongestOf = (head: HeadWords): RuleInfo | undefined => head.rules.find((each) => each.name === head.strongest);

/** The strongest rules of all heads, the most frequent first. */
export function strongestRules(heads: HeadWords[]): { rule: Pick<RuleInfo, "name" | "phrase">; count: number }[] {
  const found = new Map<string, { rule: Pick<RuleInfo, "name" | "phrase">; count: number }>();
  for (const head of heads) {
    const rule = strongestOf(head);
    if (!rule) continue;
    const name = listedAs(rule.name);
    const entry = found.get(name);
    if (entry) entry.count++;
    else found.set(name, { rule: name === rule.name ? rule : { name, phrase: words.rules.recent }, count: 1 });
  }
  return [...found.values()].sort((a, b) => b.count - a.count || a.rule.name.localeCompare(b.rule.name));
}

/** What two patterns have in common: 1 − total variation, the mean over rows with more than one key. */
export function inCommon(pattern: Float32Array, rule: Float32Array, side: number): number {
  let [sum, rows] = [0, 0];
  for (let row = 1; row < side; row++, rows++)
    for (let column = 0; column < side; column++)
      sum += Math.min(pattern[row * side + column], rule[row * side + column]);
  return rows ? sum / rows : 1;
}
