// The microscope: its page, and what it is given to read.
export default {
  triangle: "Why is it a triangle?",
  square: "Why is it a square?",
  pattern: "What is shown?",

  regions: {
    all: "All heads",
    trace: "Trace",
    head: "One head",
    role: "What this head is",
    evidence: "How we know",
    attribution: "Logit attribution",
    next: "Next token",
    headRight: "One head, right",
    both: "Left and right",
    nextRight: "Next token, right",
    attributionRight: "Logit attribution, right",
  },
  compare: "Compare",
  compareWhy: "Show a second text, or another model, next to this one",
  close: "Close",

  sentence: "Sentence",
  textRight: "Text on the right",
  type: "Type a sentence",
  nextInLine: "next in line",
  inLine: (place: number) => `number ${place} in line`,
  far: (what: string, done: number, total: number) => `${what}, ${done} of ${total}`,
  working: "working",

  tokens: "Tokens",
  weight: (weight: string) => `, weight ${weight}`,
  bars: "Bars: what",
  onTheRight: "On the right: what",
  readsFrom: "attends to from",

  lens: {
    open: "Layer by layer",
    title: "Layer by layer",
    why: "The likeliest next token if the stream before each layer were its end (logit lens)",
    layer: (name: string) => `before layer ${name}`,
    end: "prediction",
    from: (token: string) => `after ${token}`,
  },
  patching: {
    choices: {
      scores: "Scores",
      z: "Patch heads",
      resid_pre: "Patch stream",
      attn_out: "Patch attention",
      mlp_out: "Patch MLPs",
    },
    label: "What is compared",
    title: "Patch left into right",
    metric: (right: string, wrong: string) => `logit of ${right} minus logit of ${wrong}`,
    values: (left: string, right: string) => `${left} left, ${right} right`,
    legend:
      "Each cell’s value is copied from the left text into the right one. 1: the difference becomes that of the left text; 0: no change.",
    sameModel: "Patching puts values of one text into another of the same model. Choose the same model on both sides.",
    head: (name: string, effect: string) => `Head ${name}: ${effect}`,
    cell: (layer: string, token: string, effect: string) => `Layer ${layer}, ${token}: ${effect}`,
    layer: "Layer",
    working: "Patching",
  },

  typeOrPick: "Type a sentence, or pick an example. Nothing leaves this machine.",
  beginning: (read: string) => `The model reads only the first ${read} tokens of this text.`,
  truncated: (length: string, read: string) =>
    `The text has ${length} tokens and this model reads at most ${read}. You see the first ${read}.`,
  beyondTraining: (read: string, trained: string) =>
    `The text has ${read} tokens. This model was trained on texts of up to ${trained} tokens; beyond that its behaviour is untrained.`,
  reading: "Reading the sentence",
  openingModel: "Opening the model",

  model: "Model",
  modelRight: "Model on the right",
  another: "another …",
  nameOrFolder: "A model's name or folder",
  hubOrFolder: "a Hugging Face name or a folder",
  open: "Open",
  opening: "Opening",
  cancel: "Cancel",

  evidence: {
    attention: "attention there",
    reading: "raises its token",
    share: "raises the name",
    effect: "effect on name movers",
    raises: (token: string) => `raises the ${token}`,
    nextBest: (score: string) => `next best ${score}`,
    lost: "lost without it",
  },
};
