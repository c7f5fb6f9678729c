// What is selected when a look arrives, and the model that it comes from.
import type { Viewport } from "../../draw/heat-map";
import type { Look, ModelCard, Source } from "../../source/source";
import type { Example } from "../../examples";
import type { State } from "./address";
import { argmax, scoresIn, weightsBetween } from "./look-statistics";

/** A model and the way to it. */
export interface ModelSource {
  source: Source;
  model: ModelCard;
}

/** Whose logit is split over the heads; the likeliest next token's where none is named. */
export type LogitTarget = Pick<State, "toward" | "minus">;

export type Selection = (look: Look) => { head: number; token: number; zoom?: Viewport | null; asked?: LogitTarget };

/** Where to stand in an example: the head and token that it is about where none is given (−1, null). */
export interface ExamplePlace {
  head: number;
  token: number | null;
  asked?: LogitTarget;
}

export function selectExample(example: Example, at: ExamplePlace, model: ModelCard): Selection {
  return (look) => {
    const find = (word: string | undefined) => look.tokens.findLastIndex((token) => token.text.trim() === word);
    const token = at.token ?? (find(example.at) >= 0 ? find(example.at) : look.tokens.length - 1);
    const head = () => argmax(weightsBetween(look, token, find(example.reads)) ?? scoresIn(look, model, example.by));
    return { token, asked: at.asked, head: at.head >= 0 ? at.head : head() };
  };
}

/** One line of a pattern: what a token reads, or who reads it. */
export interface PatternLine {
  look: string;
  head: string;
  token: number;
  weights: Float32Array;
}
