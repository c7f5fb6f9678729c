import glossary from "./glossary";

export default { glossary };
