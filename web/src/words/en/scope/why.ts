// Why a head attends there, and where a prediction comes from.
export default {
  asking: "Press a cell to ask why.",
  name: "Why this head attends there",
  close: "Close",
  working: "Splitting the score …",
  place: (token: string, position: number) => `*${token}* (position ${position})`,
  gives: (head: string, query: string, key: string, weight: string, total: string, below: boolean, against: string) =>
    `From ${query}, head **${head}** gives ${weight} of its attention to ${key}. The score is ${total} ${below ? "below" : "above"} ${against}.`,
  single: (head: string, query: string, key: string, score: string) =>
    `From ${query}, head **${head}** sees one key, ${key}, so there is nothing to compare it with. The score is ${score}.`,
  aboveMean: "the row's average",
  aboveOthers: "the average of the other keys, weighted by attention",
  aboveKey: (position: number) => `that of the key at position ${position}`,
  distanceDecides: (back: number, part: string, lower: boolean) =>
    `At this distance (${Math.abs(back)} position${Math.abs(back) === 1 ? "" : "s"} ${back < 0 ? "ahead" : "back"}) the same query and key score ${part} ${lower ? "lower" : "higher"} than on average over the distances in this row.`,
  unwritten: "No layer has written to these positions yet, so only the two tokens and their positions matter.",
  bothWays: (up: string, more: string, down: string, less: string) =>
    `The key side: ${up} contributes ${more} and ${down} ${less}.`,
  noneAlone: (lowers: boolean, name: string, part: string) =>
    `No single component explains it; the ${lowers ? "most negative" : "largest"} contribution is from ${name} (${part}).`,
  mainly: (lowers: boolean, part: string, name: string, attended: string) =>
    `The ${lowers ? "most negative" : "largest"} contribution, ${part}, is from ${name}${attended}.`,
  attended: (key: string, token: string, where: string, weight: string) =>
    `, which attends from *${key}* most to *${token}*${where} (${weight})`,
  attendedItself: (key: string, weight: string) =>
    `, which attends from *${key}* most to that token itself (${weight})`,
  tokenBefore: ", the token before it",
  firstToken: ", the first token",
  ownBiases: "the head's own biases",
  headNamed: (name: string) => `head **${name}**`,
  the: (name: string) => `the **${name}**`,
  asked: (lowers: boolean, first: string, second?: string) =>
    `On the query side, the ${lowers ? "most negative" : "largest"} contribution${second ? `s are from ${first} and ${second}` : ` is from ${first}`}.`,
  sink: (weight: string) => `A learned sink takes ${weight} of this row.`,
  relative: "relative to",
  mean: "the row’s mean",
  other: "another key",
  others: "the others",
  otherKey: "The key it is compared with",
  sumMean: "mean",
  sumOthers: "others",
  score: "score",
  whoAsked: "Query side",
  whoAnswered: "Key side",
  at: "at",
  read: "read",
  restOf: (count: number) => (count === 1 ? "1 other" : `${count} others`),
  fewer: "fewer",
  all: "all",
  distance: "distance",
  cap: "cap",
  pairs: (count: number, sum: string) => `${count} pairs: ${sum}`,
  morePairs: (count: string, sum: string) => `${count} more: ${sum}`,
  cancel: "they cancel",
  withOne: (writer: string) => `with only ${writer}`,
  columns: "Query side and key side; arrow keys walk, Enter pins, right and left change the column",
  embedding: "embedding",
  position: "position",
  bias: "bias",
  headName: (head: string) => `Head ${head}`,
  whatItDid: (token: string, head: string) => `what it did at *${token}*, before ${head}`,
  itRead: (word: string, weight: string, token: string) =>
    `It gave ${weight} of its attention to *${word}* and wrote its output to *${token}*.`,
  easier: (part: string, total: string) => `There it raises the score through the key: **${part}** of ${total}.`,
  harder: (part: string, total: string) => `There it lowers the score through the key: **${part}** of ${total}.`,
  asksMore: (part: string, total: string) => `There it raises the score through the query: **${part}** of ${total}.`,
  asksLess: (part: string, total: string) => `There it lowers the score through the query: **${part}** of ${total}.`,
  noPattern:
    "This part has no attention pattern: it works on one position at a time. Its contribution cannot be split further exactly.",
  cameIn: "The word itself, before any layer.",
  ownBias: "What the head itself adds: its biases, and the offset of its norm.",
  whyDidIt: (head: string, word: string) => `Why did ${head} attend to ${word}?`,
  patternOf: (head: string) => `Pattern of ${head}`,
  cutTitle: "Cut this path",
  wholeGroup: "whole group",
  wholeGroupHelp: (heads: string) => `For all heads that share these keys: ${heads}`,
  intoQuery: (token: string) => `query at *${token}*`,
  intoKey: (token: string) => `key at *${token}*`,
  intoValue: (token: string) => `value of *${token}*`,
  cut: "cut",
  cutting: "Recomputing everything after the cut …",
  asIs: "unchanged",
  predicted: "predicted",
  truth: "measured",
  weightOn: (token: string) => `weight on *${token}*`,
  logitOf: (token: string) => `logit of *${token}*`,
  chanceOf: (token: string) => `probability of *${token}*`,
  legend:
    "● unchanged. │ predicted: the weight from the split, with its norm frozen; the logit from the measured weights, with later parts frozen. ○ measured: norms and everything after the cut recomputed.",
  otherSign: (predicted: string, truth: string, parts: string) =>
    `Predicted change in the logit: **${predicted}**. Measured: **${truth}**. The prediction has the wrong sign, because later parts compensate, mainly ${parts}.`,
  leans: (predicted: string, truth: string, parts: string) =>
    `Predicted change in the logit: **${predicted}**. Measured: **${truth}**. Later parts also depend on this path, mainly ${parts}.`,
  answersBack: (predicted: string, truth: string, parts: string) =>
    `Predicted change in the logit: **${predicted}**. Measured: **${truth}**. Later parts compensate, mainly ${parts}.`,
  agrees: (predicted: string, truth: string) =>
    `Predicted change in the logit: **${predicted}**. Measured: **${truth}**.`,
  notInFile:
    "This file has explanations only for the steps of its trace. For any other, open the text in headscope: a file does not contain the model.",
  save: "this explanation",
  picture: (model: string, head: string, query: string, key: string) =>
    `${model}: why head ${head} attends from “${query}” to “${key}”`,
  table: ["side", "component", "score", "attended to", "weight"],
  needsModel: "This explanation needs the model: open this text in headscope.",
};
