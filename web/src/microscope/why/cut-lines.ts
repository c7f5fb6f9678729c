// The lines of a cut path: weight, logit and chance, each as it is, predicted and true.
import { percent, short } from "../../format";
import type { CutPath } from "../../source/source";
import { words } from "../../words/words";
import { plain, said } from "./why-sentence";

export interface CutLine {
  name: string;
  label: string;
  values: { as_is: number; predicted: number; true: number };
  say: (value: number) => string;
  range: [number, number];
}

export function cutLines(cut: CutPath, key: string): CutLine[] {
  const say = words.why;
  const token = said(cut.token.text);
  const around = Object.values(cut.logit);
  const reach = Math.max(1, Math.max(...around) - Math.min(...around));
  const low = Math.min(...around) - reach * 0.3;
  const weight = (value: number) => short(value, 3);
  const chance = (value: number) => `${percent(value)} %`;
  const found: CutLine[] = [
    { name: "logit", label: say.logitOf(token), values: cut.logit, say: plain, range: [low, low + reach * 1.6] },
    { name: "chance", label: say.chanceOf(token), values: cut.probability, say: chance, range: [0, 1] },
  ];
  if (!cut.weight) return found;
  return [{ name: "weight", label: say.weightOn(said(key)), values: cut.weight, say: weight, range: [0, 1] }, ...found];
}

/** Where the path goes in, in words. */
export function cutPlace(cut: CutPath, query: string, key: string): string {
  const say = words.why;
  return { q: say.intoQuery, k: say.intoKey, v: say.intoValue }[cut.into]!(said(cut.into === "q" ? query : key));
}
