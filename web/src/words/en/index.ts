import byHand from "./by-hand";
import censusScan from "./census-scan";
import classroom from "./classroom";
import examples from "./examples";
import fourHeads from "./four-heads";
import frame from "./frame";
import glossary from "./glossary";
import learn from "./learn";
import microscope from "./microscope";
import start from "./start";
import tour from "./tour";

export default { byHand, censusScan, classroom, examples, fourHeads, frame, glossary, learn, microscope, start, tour };
