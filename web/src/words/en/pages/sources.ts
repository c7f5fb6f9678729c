// Sources: which document an answer came from.
export default {
  title: "Where did the answer come from?",
  intro:
    "Each document is hidden from every head in turn. What the answer then loses shows whether it came from there; attention alone does not.",
  documents: "Documents, with an empty line between two",
  question: "Question, or the beginning of the answer",
  expected: "The answer you expect (optional)",
  run: "Find the source",
  running: "Hiding each document …",
  example: "Example",
  examples: ["Read, but outvoted", "Right", "Your own"],
  says: "it says",
  expects: "you expected",
  list: "The documents, in their order.",
  press: "Press one to hide it.",
  attention: "attention",
  attentionOf: "mean of all heads",
  loses: "what the answer loses without it, in nats",
  hide: (number: number) => `Hide document ${number}`,
  isHidden: "Hidden from every head. Press to show it.",
  verdicts: {
    used: "used",
    outvoted: "read, but outvoted",
    lowers: "read, lowers it",
    not: "not read",
    unmeasured: "not measured",
  },
  falls: (word: string, from: string, to: string) => `Without it, ${word} goes from ${from} to ${to}.`,
  notEnough: (word: string, times: string, whole: string) =>
    `It makes ${word} ${times} times more likely, ${whole} with it. That is not enough.`,
  lowers: (word: string, times: string) => `Without it, ${word} is ${times} times more likely.`,
  noEffect: "Hiding it makes no clear difference.",
  without: (number: number, word: string, now: string, was: string) =>
    `Without document ${number}, the model gives *${word}* ${now} instead of ${was}`,
  and: (word: string, now: string, was: string) => `, and *${word}* ${now} instead of ${was}`,
  bars: (number: number, said: string) => `Document ${number}: ${said}`,
  effect: (word: string, nats: string) => `${word} loses ${nats} nats`,
  which: "Which heads carry it?",
  carriers: (number: number, word: string) =>
    `The heads that carry document ${number} into *${word}*, by estimate. Press one to open it in the microscope.`,
  together: (count: number) => `these ${count} cut together`,
  random: (count: number) => `${count} random heads`,
  every: "every head",
  estimated: "estimated",
  measured: "measured",
  legend: {
    given: "the answer given",
    expected: "the answer expected",
    controls: "other stretches of the same length",
  },
  method: (passes: number, tokens: string) =>
    `Measured in ${passes} passes over ${tokens} tokens; positions do not change. “Not read” means no more than: hiding it makes no clear difference. Two documents that say the same replace each other, and hiding one of them shows nothing.`,
};
