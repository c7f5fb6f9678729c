// The figures that a lesson can hold, by the kind that its Markdown names.
import type { Component } from "svelte";
import BarChoice from "./BarChoice.svelte";
import CrossAttention from "./CrossAttention.svelte";
import CurveSlider from "./CurveSlider.svelte";
import FilmFigure from "./mounted/FilmFigure.svelte";
import ForkFigure from "./mounted/ForkFigure.svelte";
import InventFigure from "./mounted/InventFigure.svelte";
import HeadText from "./one-head/HeadText.svelte";
import StepAverage from "./one-head/StepAverage.svelte";
import StepScale from "./one-head/StepScale.svelte";
import StepScores from "./one-head/StepScores.svelte";
import StepSoftmax from "./one-head/StepSoftmax.svelte";
import StepTriangle from "./one-head/StepTriangle.svelte";
import StepVector from "./one-head/StepVector.svelte";
import RealFigure from "./mounted/RealFigure.svelte";
import PartitionFigure from "./mounted/PartitionFigure.svelte";
import SamplingFigure from "./SamplingFigure.svelte";
import Kept from "./Kept.svelte";
import SplitHeads from "./SplitHeads.svelte";
import Threshold from "./Threshold.svelte";

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each figure has the props that its lesson computes
export const FIGURES: Record<string, Component<any>> = {
  "one-head": HeadText,
  "one-head-vector": StepVector,
  "one-head-scores": StepScores,
  "one-head-scale": StepScale,
  "one-head-softmax": StepSoftmax,
  "one-head-average": StepAverage,
  "one-head-triangle": StepTriangle,
  "bar-choice": BarChoice,
  "curve-slider": CurveSlider,
  fork: ForkFigure,
  invent: InventFigure,
  kept: Kept,
  "split-heads": SplitHeads,
  threshold: Threshold,
  film: FilmFigure,
  partition: PartitionFigure,
  cross: CrossAttention,
  real: RealFigure,
  sampling: SamplingFigure,
};
