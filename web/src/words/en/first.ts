// What a first visit needs: the frame, Start and its figure.
import classroom from "./classroom";
import fork from "./fork";
import frame from "./frame";
import glossary from "./glossary";
import published from "./published";
import start from "./start";
import tour from "./tour";
import ui from "./ui";

export default {
  classroom,
  fork,
  frame,
  glossary,
  published,
  start,
  tour,
  ui,
};
