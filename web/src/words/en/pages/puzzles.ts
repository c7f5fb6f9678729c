// Puzzles: models with jobs compiled into their heads.
export default {
  title: "Puzzles",
  intro:
    "Each puzzle is a small model. A few of its heads have a task, and the others are random. Use the microscope to find out which head does what, and check your answers. Each time you open a level, you get a new model.",
  week: "Puzzle of the week",
  weekSays: "the same for everyone until Sunday",
  open: "Open",
  openLevel: (level: number) => `Open level ${level}`,
  levels: [
    "One head and one decoy: how far back does it look?",
    "Two heads with a fixed distance among four",
    "One head that looks for a kind of word",
    "Kinds of words: all of them, or only the last?",
    "Copies of the same token, among other jobs",
    "Two layers: one head reads the notes of another",
    "Near words or all words: look at the strength",
    "Sentences and brackets",
    "Four ways to look behind a copy",
    "Four jobs and their helpers among many heads",
  ],
  level: (level: number) => `Puzzle, level ${level}`,
  task: (jobs: number, heads: number) =>
    `${jobs} of ${heads} heads ${jobs === 1 ? "has" : "have"} a job. Choose a head, look at its pattern, also on your own text made of these words, and say what it attends to. A head with nothing to find attends to the first token.`,
  head: "Head",
  looks: "attends to",
  choose: "choose a job",
  say: "Say it",
  solve: "Show the solution",
  attends: (job: string) => `attends to ${job}`,
  done: "That is all of them.",
  another: "Another puzzle",
};
