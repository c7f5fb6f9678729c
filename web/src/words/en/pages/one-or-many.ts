// One or many.
export default {
  tab: "One or many · headscope",
  title: "One head or many",
  introFound: (many: string, found: string, wide: string, alone: string) =>
    `Ask a token for two things at once, with equal parameters: ${many} find both ${found} of the time, ${wide} ${alone}.`,
  caught: (with_: string) => `With ${with_}, one head catches up.`,
  orA: " or a ",
  notCaught: "No other change that we tried made one head catch up.",
  intro: "Ask a token for two things at once, with equal parameters.",
  attempt:
    "cut the width into more and more heads below and see where the score is highest. Then run it here: do you get the same?",
  training: (what: string, done: number, planned: number, seconds: number) =>
    `training ${what}, ${done} of ${planned} done, ${seconds} s`,
  waiting: (seconds: number) => `waiting for the machine, ${seconds} s`,
  split: (heads: number, size: number) => {
    const numbers = `${size} ${size === 1 ? "number" : "numbers"}`;
    const questions = `${heads} ${heads === 1 ? "question" : "questions"}`;
    return `${heads} ${heads === 1 ? "head" : "heads"} of ${numbers}: ${questions} at once, with ${numbers} for each. The parameters stay the same.`;
  },
  stop: "Stop",
  budget: (seeds: number, steps: string) => `${seeds} seeds, ${steps} steps, on this machine`,
  unseen: "both right, on rows that were not in training",
  runHere: "Run it here",
  theTask: "The task",
  taskSays: "keys with values, in any order; the last token asks for two",
  roles: "here each value's own token shows which answer it is",
  enough: "Where one head is enough",
  legend: (seeds: number, steps: string, width: number) =>
    `Dot: mean of ${seeds} seeds. Line: 95% interval over seeds (Student's t). Ticks: each seed. Dotted: guessing. ${steps} steps, width ${width}.`,
  cut: "One width, cut into heads",
  width: "width",
  widthLabel: "Width",
  heads: "heads",
  headsLabel: "Heads",
  headsOf: (heads: number, size: number) => `${heads} heads of ${size}`,
  runCut: (heads: number, size: number) => `Run ${heads} × ${size} here`,
  cutsSay: "What the cuts show",
  fetching: "Fetching the results",

  layers: (count: number) => `, ${count} layers`,
  here: (percent: string) => `here ${percent}`,
  seedsOf: (solved: number, all: number) => `${solved} of ${all} seeds`,
  cutInto: (width: number, heads: number, size: number) => `${width} numbers cut into ${heads} heads of ${size}`,
  partitionTitle: (width: number) => `A width of ${width} cut into heads`,
  pictureTitle: (width: number) => `A width of ${width}, cut into heads`,
  pictureNote: "Fraction of rows with both values right; ticks are seeds, lines are 95% intervals.",
  bothFound: "Both values found",
  ticks: "ticks: seeds · line: 95% interval",
  openRun: " · open: run here",
  partition: "the partition",
  chosen: (title: string, heads: number, size: number) =>
    `${title}. ${heads} heads of ${size} chosen. Arrow keys choose.`,

  oneRow: "One row of the task",
  answer: "answer",
  another: "Another row",
  task: (first: string, second: string, one: number, two: number) =>
    `The last token must return ${first}'s value and then ${second}'s value. One head returns one average, half ${one} and half ${two}, with no sign of which came first. Two heads return one value each.`,
};
