// What is selected when a look arrives, and the model that it comes from.
import type { Viewport } from "../../draw/heat-map";
import type { Look, ModelCard, Source } from "../../source/source";
import type { State } from "./address";

/** A model and the way to it. */
export interface ModelSource {
  source: Source;
  model: ModelCard;
}

/** Whose logit is split over the heads; the likeliest next token's where none is named. */
export type LogitTarget = Pick<State, "toward" | "minus">;

export type Selection = (look: Look) => { head: number; token: number; zoom?: Viewport | null; asked?: LogitTarget };

/** One line of a pattern: what a token reads, or who reads it. */
export interface PatternLine {
  look: string;
  head: string;
  token: number;
  weights: Float32Array;
}
