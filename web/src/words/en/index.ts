import glossary from "./glossary";
import learn from "./learn";

export default { glossary, learn };
