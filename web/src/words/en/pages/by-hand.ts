// By hand.
export default {
  notCausal:
    "Here *it* attends to **tired**, a word that comes later: this example is not causal. A model that writes from left to right could attend only to what comes before *it*; an encoder attends both ways.",
  tab: "By hand · headscope",
  title: "Worked by hand",
  intro:
    "Two heads ask two different questions about the same word. Each returns a sum of share × value. The two sums are joined end to end, and W_O mixes them.",
  attempt:
    "pull the bar of *animal* in head 1 down to 0 and watch the numbers below. You can type over every share, every value and every number of W_O, and open every sum.",
  example: "the worked example",
  opening: "Opening the worked example",
  head: (head: number) => `Head ${head}`,
  together: "together",

  // a scorecard
  word: "word",
  itsValue: "its value",
  product: "share × value",
  shareTyped: (word: string, head: number) => `Share of ${word} in head ${head}, typed`,
  valueOf: (at: number, word: string, head: number) => `Value ${at} of ${word}, head ${head}`,
  showSum: (sum: string, at: number, value: string) => `${sum}, number ${at}: ${value}. Show the sum`,

  // concatenated and mixed
  concatenate: (heads: number, size: number) => `concatenate: ${heads} heads × ${size} numbers = ${heads * size}`,
  mix: "Concatenate and mix",
  endToEnd: "End to end, then W_O",
  numberOf: (head: number, at: number) => `o${"₀₁₂₃₄₅₆₇₈₉"[head]}, number ${at}`,
  rowNumber: (name: string, at: number) => `${name}, number ${at}`,
  cell: (name: string, row: number, column: number) => `${name}, row ${row}, column ${column}`,
  left: (count: number) =>
    `The ${count} numbers on the left are o₁ and o₂, end to end: nothing is added and nothing is chosen. Concatenation does nothing more.`,
  real: "Real models learn W_O. It does not choose between heads: it combines the outputs of all of them.",

  // from x to shares
  exercise: "an exercise",
  wholeBrief: (heads: number) => `${heads} models`,
  whence: "Where do such shares come from? See the figure's first step.",
  share: "share",

  // the exercise
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
  checkHeads: "Check my heads",
  praiseHeads: "These two heads ask two questions about one word. One head could not have answered both.",

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
