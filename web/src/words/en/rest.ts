// What the other pages need, fetched with the first of them.
import byHand from "./pages/by-hand";
import censusScan from "./pages/census-scan";
import examples from "./examples";
import fourHeads from "./pages/four-heads";
import learn from "./learn";
import microscope from "./microscope";
import cards from "./pages/cards";
import census from "./pages/census";
import film from "./pages/film";
import grid from "./scope/grid";
import head from "./scope/head";
import media from "./scope/media";
import oneOrMany from "./pages/one-or-many";
import pattern from "./scope/pattern";
import real from "./pages/real";
import prediction from "./scope/prediction";
import puzzles from "./pages/puzzles";
import sources from "./pages/sources";
import trace from "./scope/trace";
import why from "./scope/why";

export default {
  byHand,
  censusScan,
  examples,
  fourHeads,
  learn,
  microscope,
  cards,
  census,
  film,
  grid,
  head,
  media,
  oneOrMany,
  pattern,
  real,
  prediction,
  puzzles,
  sources,
  trace,
  why,
};
