import frame from "./frame";
import glossary from "./glossary";
import learn from "./learn";
import start from "./start";
import tour from "./tour";

export default { frame, glossary, learn, start, tour };
