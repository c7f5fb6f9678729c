import byHand from "./by-hand";
import censusScan from "./pages/census-scan";
import classroom from "./classroom";
import examples from "./examples";
import fork from "./fork";
import fourHeads from "./four-heads";
import frame from "./frame";
import glossary from "./glossary";
import learn from "./learn";
import microscope from "./microscope";
import published from "./published";
import start from "./start";
import tour from "./tour";
import ui from "./ui";
import cards from "./pages/cards";
import census from "./pages/census";
import film from "./pages/film";
import grid from "./pages/grid";
import head from "./pages/head";
import media from "./pages/media";
import oneOrMany from "./pages/one-or-many";
import pattern from "./pages/pattern";
import real from "./pages/real";
import prediction from "./pages/prediction";
import puzzles from "./pages/puzzles";
import sources from "./pages/sources";
import trace from "./pages/trace";
import why from "./pages/why";

export default {
  byHand,
  cards,
  census,
  censusScan,
  classroom,
  examples,
  film,
  fork,
  fourHeads,
  frame,
  glossary,
  grid,
  head,
  learn,
  media,
  microscope,
  oneOrMany,
  pattern,
  prediction,
  real,
  published,
  puzzles,
  sources,
  start,
  tour,
  trace,
  ui,
  why,
};
