// By hand.
export default {
  notCausal:
    "Here *it* reads **tired**, a word that comes later: this example is not causal. A model that writes from left to right could read only what stands before *it*; an encoder reads both ways.",
  tab: "By hand · headscope",
  title: "Worked by hand",
  intro:
    "Two heads read the same word with two different questions; each carries home a sum of share × value, the two sums are laid end to end, and W_O mixes them.",
  attempt:
    "drag *animal* in head 1 down to nothing: what it carried home goes with it. Every number can be typed over, and every sum opened.",
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
  tooMuch: (by: string) => `${by} too much: share it out`,
  missing: (by: string) => `${by} missing: share it out`,
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
    `The ${count} numbers on the left are o₁ and o₂, end to end: nothing added, nothing chosen. That is all concatenation is.`,
  saysIdentity:
    "With the identity, W_O does nothing: y is what the heads said, each in its own place. Switch to mixing.",
  saysYours: "This W_O is yours: each column says how much of every number on the left goes into one number of y.",
  saysMixing:
    "This W_O mixes: the first four numbers of y are half of what the heads say together, the last four half of where they differ. Every number of y is made from both heads.",
  real: "Real models learn W_O. It does not choose between heads: it adds up what all of them bring home.",

  // from x to shares
  whence: "Where do such shares come from?",
  fromX: (word: string) =>
    `From x. The same eight numbers of *${word}*, two different W_Q, two different questions. Keys and values are the same for both heads here, to keep it small; in a real layer each head has its own.`,
  fromStart: (head: number) => `Head ${head} from the start`,
  query: (word: string) =>
    `x of *${word}* times W_Q is the query: multiply each row by its number of x, and add up the columns.`,
  matrixOf: (head: number) => `W_Q of head ${head}`,
  meets: (size: number, root: string) =>
    `The score is query times key, number by number and added up, divided by ${root}: the root of ${size}, the length of a key. Softmax makes shares of the scores.`,
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
    `Invent two heads for *${word}*: one that finds whom it means, one that finds what is said of it. Each shares out exactly 1. If you like, work out what each carries home: share × value, added up column by column.`,
  yours: (head: number) => `Your head ${head}`,
  yourShare: (head: number, word: string) => `Your head ${head}: ${word}`,
  yourShareTyped: (head: number, word: string) => `Your head ${head}: ${word}, typed`,
  yourValue: (at: number, word: string, head: number) => `Value ${at} of ${word}, your head ${head}`,
  bothEndToEnd: "o₁ and o₂ end to end",
  numbersToWrite: (count: number) => `write ${count} numbers`,
  sumAt: (name: string, at: string) => `${name}, number ${at}`,
  checkHeads: "Check my heads",
  praiseHeads: "That is two heads asking two questions of one word. One head could not have told you both.",
  fork: "Exercise: draw the fork",
  fromMemory: "From memory: draw the fork",
  forkPicture: "The fork, drawn from memory",
  theFork: "the fork",
  forkField: "The fork",
  pressFirst: "Press the box where an arrow begins, then the one where it ends. The same again takes it away.",
  pressNext: (box: string) => `From ${box}: now press the box it goes to.`,
  checkFork: "Check my fork",
  clear: "Clear",
  noArrows: "No arrows yet",
  praiseFork:
    "The fork, whole: the input goes to both heads at once, their answers are laid end to end, and W_O mixes them.",
  from: "from",
  to: "to",

  // heads written by hand
  heads: "Heads by hand",
  wholeHeads: "Whole heads by hand",
  nobody: "Nobody trained these: every number of theirs was written down. They open in the microscope like any model.",
  layers: (count: number) => `${count} layers.`,
  open: "Open in the microscope",
  openingHead: "Opening",

  // the picture to save
  pictureTitle: (word: string, sentence: string) => `“${word}” in: ${sentence}`,
  pictureJoined: (numbers: string) => `End to end: ${numbers}`,
  pictureMixed: (numbers: string) => `Through the mixing W_O: ${numbers}`,
};
