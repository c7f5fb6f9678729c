// Four heads.
export default {
  nothing: "This head has no target in this sentence, so every word attends to the first word.",
  paint: "Paint what it should find",
  twice: (word: string) =>
    `Without positions, both copies of “${word}” look the same to every head, so it gets rows wrong that must tell them apart.`,
  lowered: (word: string) => `The sentence now begins with a small letter, so that “${word}” occurs in it twice.`,
  allDiffer:
    "All words of this sentence differ, so a head that knows the word knows its position. Nothing changes without positions.",
  takeRepeated: "Take a sentence with a repeated word",
  /** a sentence in which positions matter: two copies of a word, to be told apart */
  repeated: "the tired horse crossed the narrow road because it was late",

  tab: "Four heads · headscope",
  title: "Four heads at work",
  intro:
    "Four heads ask four questions about the same sentence at once. Each is trained here, while you watch, to attend where its frames are.",
  attempt:
    "switch to **Paint** and press a cell: that head learns your target at once. Then make the heads too small (**numbers per head: 1**) and see which rows fail.",
  numbersPerHead: "numbers per head",
  steps: "steps",
  withoutPlaces: "Without positions a head sees which word it is, not where it is",
  knowsPlaces: "knows positions",
  train: "Train",
  trainingStep: "Training step",
  stepAt: (step: number) => `step ${step}`,
  step: "step",
  keyPaint: "Press a cell to paint it; drag a painted one up or down for more or less of its row.",
  keyLook: "Frames: the targets. Fill: what was learned. A row without a target attends to the first word.",
  press: "What a press does",
  look: "Look",
  paintMode: "Paint",
  opening: "Opening",
  open: "Open these heads in the microscope",
  ordinary: "They form an ordinary model of one layer, and the microscope opens it like any other.",
  openingPage: "Opening the four heads",

  // the sentence
  sentence: "Sentence",
  trainOnIt: "Train on it",
  words: "Words",
  edit: "Edit sentence",
  another: "Another",
  training: "Training",

  // one head
  head: (head: number, name: string) => `Head ${head}, ${name}`,
  plainHead: (head: number) => `Head ${head}`,
  nameOf: (head: number) => `Name of head ${head}`,
  clear: "Clear",
  arrowsAsList: (head: number) => `Arrows of head ${head} as a list`,
  arrowsOf: (head: number) => `Arrows of head ${head}`,
  close: "Close",
  list: "List",
  itsPattern: (name: string) => `${name}, its pattern`,
  whatAsks: (head: number) => `What head ${head} asks`,
  asksPlaceholder: "What does it ask?",
  nothingAsked: "Nothing asked yet",
  byHand: "Painted by hand",
  atRest: "no target",
  ofTarget: "of its target",
  lossOver: "Loss over training",
  loss: (loss: string) => `loss ${loss}`,
  arrowsPlaceholder: "crossed > horse, was > it",
  trainToThese: "Train to these arrows",
  finds: (hit: string) => `finds ${hit}.`,
  onlyFirst: "Only the first",
  andMore: (count: number) => `And ${count} more`,
  everyRow: "Every row found.",
  paintedTarget: "a painted target",
  frames: (steps: number) => `Frames: the target. Fill: what the head learned in ${steps} steps.`,
  columns: { from: "from", to: "to", weight: "weight", target: "target" },

  // a pattern
  walksPaint: "Arrow keys walk, space paints, plus and minus give more or less of the row.",
  walksLook: "Arrow keys choose the word.",
  painted: (share: string) => `painted, ${share} of its row`,
  allOf: "all",
  empty: "empty",
  cell: (from: string, to: string, painted: string) => `${from} to ${to}: ${painted}`,
  readsBest: (from: string, to: string, weight: string) => `${from} attends to ${to} ${weight}`,
  notTrained: "not trained yet",
  shouldRead: "should attend to",
  reads: "attends to",
  alsoReads: "; attends to",
  restsOn: "has no target: it attends to",

  // the outputs of the heads
  joined: (heads: number, size: number) =>
    `The outputs are joined end to end: ${heads} heads × ${size} ${size === 1 ? "number" : "numbers"} = ${heads * size}. Then W_O mixes them.`,
  seeFork: "See both steps with numbers",
};
