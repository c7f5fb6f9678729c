// By hand.
export default {
  notCausal:
    "Here *it* attends to **tired**, a word that comes later: this example is not causal. A model that writes from left to right could attend only to what comes before *it*; an encoder attends both ways.",
  tab: "By hand · headscope",
  title: "Worked by hand",
  intro:
    "Two heads ask two different questions about the same word. Each returns a sum of share × value. The two sums are joined end to end, and W_O mixes them.",
  attempt:
    "drag *animal* in head 1 down to 0 and watch the head's output change. You can edit every number and open every sum.",
  reset: "Back to the first numbers",
  example: "the worked example",
  opening: "Opening the worked example",
  head: (head: number) => `Head ${head}`,
  headSmall: (head: number) => `head ${head}`,
  together: "together",
  unreadable: "The numbers in this address could not be read; these are the first ones.",

  // the sentence
  sentence: "The sentence, with the two heads' shares under its words",

  bars: "Bars, from above:",

  // a scorecard
  word: "word",
  itsShare: "its share, to drag",
  itsValue: "its value",
  product: "share × value",
  shareOf: (word: string, head: number) => `Share of ${word} in head ${head}`,
  shareTyped: (word: string, head: number) => `Share of ${word} in head ${head}, typed`,
  valueOf: (at: number, word: string, head: number) => `Value ${at} of ${word}, head ${head}`,
  tooMuch: (by: string) => `${by} too much: rescale to 1`,
  missing: (by: string) => `${by} missing: rescale to 1`,
  showSum: (sum: string, at: number, value: string) => `${sum}, number ${at}: ${value}. Show the sum`,

  // concatenated and mixed
  concatenate: (heads: number, size: number) => `concatenate: ${heads} heads × ${size} numbers = ${heads * size}`,
  mix: "Concatenate and mix",
  endToEnd: "End to end, then W_O",
  identity: "identity",
  mixing: "mixing",
  theIdentity: "The identity",
  numberOf: (head: number, at: number) => `o${"₀₁₂₃₄₅₆₇₈₉"[head]}, number ${at}`,
  rowNumber: (name: string, at: number) => `${name}, number ${at}`,
  cell: (name: string, row: number, column: number) => `${name}, row ${row}, column ${column}`,
  left: (count: number) =>
    `The ${count} numbers on the left are o₁ and o₂, end to end: nothing is added and nothing is chosen. Concatenation does nothing more.`,
  saysIdentity:
    "With the identity, W_O changes nothing: y is the outputs of the heads, side by side. Switch to mixing.",
  saysYours: "This W_O is yours: each column says how much of every number on the left goes into one number of y.",
  saysMixing:
    "This W_O mixes: the first four numbers of y are half of the sum of the two heads, and the last four are half of their difference. Every number of y is made from both heads.",
  real: "Real models learn W_O. It does not choose between heads: it combines the outputs of all of them.",

  // from x to shares
  whenceBrief: "query times key, softmax",
  exercise: "an exercise",
  wholeBrief: (heads: number) => `${heads} models`,
  whence: "Where do such shares come from?",
  fromX: (word: string) =>
    `From x. The same eight numbers of *${word}*, multiplied by two different W_Q, give two different questions. Both heads have the same keys and values here, to keep it small. In a real layer each head, or group of heads, has its own.`,
  fromStart: (head: number) => `Head ${head} from the start`,
  query: (word: string) =>
    `x of *${word}* times W_Q is the query: multiply each row by its number of x, and add up the columns.`,
  matrixOf: (head: number) => `W_Q of head ${head}`,
  meets: (size: number, root: string) =>
    `The score is query times key: multiply number by number and add up. It is divided by ${root}, the square root of ${size}, the length of a key. Softmax turns the scores into shares.`,
  softmaxLine: (word: string, score: string, power: string, sum: string, share: string) =>
    `${word}: e to the ${score} is ${power}; ${power} / ${sum} (the sum for all words) = ${share}`,
  setByHand: (word: string, set: string, computed: string) => `**${word}**: set by hand ${set}, computed ${computed}.`,
  key: "key",
  score: "score",
  share: "share",
  useShares: "Use the computed shares",

  // exercises
  invent: "Exercise: invent two heads",
  yourTurn: "Your turn: invent two heads",
  inventSays: (word: string) =>
    `Invent two heads for *${word}*: one that finds what it refers to, and one that finds what is said about it. The shares of each head add up to exactly 1. If you like, work out the output of each: share × value, added up column by column.`,
  yours: (head: number) => `Your head ${head}`,
  yourShare: (head: number, word: string) => `Your head ${head}: ${word}`,
  yourShareTyped: (head: number, word: string) => `Your head ${head}: ${word}, typed`,
  yourValue: (at: number, word: string, head: number) => `Value ${at} of ${word}, your head ${head}`,
  bothEndToEnd: "o₁ and o₂ end to end",
  numbersToWrite: (count: number) => `write ${count} numbers`,
  sumAt: (name: string, at: string) => `${name}, number ${at}`,
  checkHeads: "Check my heads",
  praiseHeads: "These two heads ask two questions about one word. One head could not have answered both.",
  fork: "Exercise: draw the fork",
  fromMemory: "From memory: draw the fork",
  forkPicture: "The fork, drawn from memory",
  theFork: "the fork",
  forkField: "The fork",
  pressFirst: "Press the box where an arrow begins, then the box where it ends. Repeat this to remove the arrow.",
  pressNext: (box: string) => `From ${box}: now press the box it goes to.`,
  checkFork: "Check my fork",
  clear: "Clear",
  noArrows: "No arrows yet",
  praiseFork:
    "The fork is complete: the input goes to both heads at once, their outputs are joined end to end, and W_O mixes them.",
  from: "from",
  to: "to",

  // heads written by hand
  heads: "Heads by hand",
  wholeHeads: "Whole heads by hand",
  nobody: "These heads were not trained: every number was written by hand. They open in the microscope like any model.",
  layers: (count: number) => `${count} layers.`,
  open: "Open in the microscope",
  openingHead: "Opening",

  // the picture to save
  pictureTitle: (word: string, sentence: string) => `“${word}” in: ${sentence}`,
};
