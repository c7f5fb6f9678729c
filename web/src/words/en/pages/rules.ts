// Every head in words: the sentence of a head, its measures, and running on rules.
export default {
  // the sentence of a head, as `headscope rules` writes it
  rests: (first: string, clauses: string, left: string) =>
    `Rests on the first token (${first}). Of the rest, ${clauses}; ${left}.`,
  hardlyRests: (first: string, clauses: string, left: string) =>
    `Hardly rests on the first token (${first}). Of the rest, ${clauses}; ${left}.`,
  restsOnly: (first: string, left: string) => `Rests on the first token (${first}). Of the rest, ${left}.`,
  hardlyRestsOnly: (first: string, left: string) => `Hardly rests on the first token (${first}). Of the rest, ${left}.`,
  left: (left: string) => `${left} is not explained`,
  leftOnContent: (left: string, content: string) =>
    `${left} is not explained, of which ${content} depends on content: on what each token has read, layer by layer, from the one before it`,
  goesTo: (part: string, phrase: string) => `${part} goes to ${phrase}`,
  goesToWhere: (part: string, phrase: string, percent: string) =>
    `${part} goes to ${phrase}, where there is one (at ${percent} % of places)`,
  phrase: (name: string, phrase: string) => (name ? phrase : ""),
  example: (query: string, key: string, weight: string, byRules: string) =>
    `For example, “${query}” reads “${key}” with ${weight}, by its rules with ${byRules}.`,

  title: "In words",
  measured: (rules: string, places: string, texts: string) =>
    `Measured on ${texts} texts (${places} tokens of them), with ${rules} ${rules === "1" ? "rule" : "rules"}.`,
  unfitted: "No words yet: rules describe a head by where its attention goes, and are fitted to each model once.",
  fit: "Say it in words",
  fitting: "Fitting rules to every head. The microscope goes on meanwhile.",
  fittingBy: (what: string, done: string, total: string) => `${what}: ${done} of ${total}`,
  stop: "Stop",
  elsewhere: "Somebody else is having the rules of this model fitted. They appear here when that is done.",
  notHere: "This page holds no rules for this model. To get them, open the text in headscope.",
  notOfThisHead: "Rules describe heads by which a text reads itself; this head reads another.",

  bar: "What the rules explain of its attention",
  first: (part: string) => `first token ${part}`,
  theRest: (part: string) => `the rest ${part}`,
  position: (part: string) => `position alone explains ${part}`,
  notExplained: "not explained",
  partTitle: (name: string, part: string) => `${name}: ${part} of its attention beside the first token`,

  look: "Beside its rule",
  close: "Close",
  onRules: (head: string) => `${head} on rules`,
  onRulesTitle: "Let this head attend where its rules say, in the prediction",
  isOnRules: (head: string) => `${head} on rules`,
  offRules: (head: string) => `Let ${head} read again`,
  allOnRules: "All heads on rules",
  noneOnRules: "All heads read again",

  maps: "Pattern, rule, difference",
  mapsSay: "this text; point at a cell",
  pattern: "Pattern",
  patternSays: "what it reads",
  rule: "Rule",
  ruleSays: "what the words say",
  difference: "Difference",
  differenceSays: "blue: reads it more than the rule says; ochre: less",
  cell: (query: string, key: string, weight: string, rule: string) =>
    `${query} reads ${key}: ${weight}, by its rules ${rule}`,
  common: (share: string) => `On this text pattern and rule have ${share} of their mass in common.`,
  noMaps: "A saved file holds the sentence, and not what the rules say of this text.",
  tooLong: (tokens: string, most: string) =>
    `This text has ${tokens} tokens; pattern and rule are drawn for up to ${most}.`,

  measures: "How good are the words?",
  measuresSay: "on text not used for fitting",
  allOfIt: "all of it",
  rest: "the rest",
  gain: "gain over position",
  byPosition: (value: string) => `position ${value}`,
  byChance: (value: string) => `null ${value}`,
  measuresKey:
    "Grey: the best mixture of position alone; for the gain, rules that read shuffled tokens. Line: 95 % interval over texts. “All of it” flatters heads that rest on the first token; read the other two.",

  content: "What it depends on by content",
  contentSays: "strongest direction of each circuit, in tokens of the texts that were measured",
  qkSays: (share: string) => `QK circuit, ${share} of it: queries like`,
  qkThen: "look for",
  ovSays: (share: string) => `OV circuit, ${share} of it: reading`,
  ovThen: "raises",
  contentKey:
    "From the weights alone, tokens as they are embedded: what earlier layers add is not in it. The smaller the share, the less one direction says of the head.",

  run: "Run on its rules",
  runSays: "what it costs, perplexity",
  runRules: "on its rules",
  runPosition: "on position alone",
  runMean: "its mean instead",
  measuring: "Measuring what it costs.",
  notMeasured: "What it costs was not measured.",
  keeps: (share: string) => `The rules keep ${share} of what is lost when the head only says its mean.`,
  keepsMore: (share: string, position: string) =>
    `The rules keep ${share} of what is lost when the head only says its mean; position alone keeps ${position}.`,
  keepsNothing: "The rules keep nothing of what is lost when the head only says its mean.",
  littleToKeep: "Its mean costs almost nothing, so there is little to keep.",
  predictions:
    "Switch it on, and the next token below is predicted with this head on its rules, and on its mean for the share that they do not explain.",

  // the grid
  group: "in words",
  showRest: "share explained",
  showGain: "gain over position",
  strongest: "strongest rule",
  noteRest: "The darker, the more of a head’s attention beside the first token its rules explain.",
  noteGain: "The darker, the more a head’s rules explain of what position alone leaves unexplained.",
  recent: "recent tokens",
  noteStrongest: (heads: string, phrase: string) =>
    `${heads} ${heads === "1" ? "head sends" : "heads send"} most of what is explained to ${phrase}.`,

  // by hand
  write: "Write a rule, get a head",
  writeSays:
    "A rule says where a head attends. Here it becomes W_Q, W_K, W_V and W_O: no number is trained. Choose a rule or write one, as in “last commas” or “what followed an earlier copy”.",
  ruleField: "Rule",
  compile: "Compile",
  hidden: "hidden in noise, beside decoys",
  hiddenTitle: "Rotate the residual stream at random, add noise, and put two heads without a job into every layer",
  compiled: (head: string, phrase: string) => `Head ${head} attends to ${phrase}.`,
  compiledShare: (share: string) => `Of its attention, ${share} lands where the rule says, wherever there is a target.`,
  compiledSize: (layers: string, heads: string, model: string, head: string) =>
    `layers: ${layers}, heads in each: ${heads}, d_model: ${model}, d_head: ${head}`,
  matrix: (name: string, rows: string, columns: string) =>
    `${name}, ${rows} × ${columns}: each cell is the largest weight of its part; blue is positive, ochre negative`,
  patternOf: (head: string) => `Pattern of compiled head ${head}`,
  openCompiled: "Open in the microscope",
  opening: "Opening",
};
