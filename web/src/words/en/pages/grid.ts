// The microscope's grid of heads.
const plural = (count: number, word: string) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

export default {
  layers: (count: number) => plural(count, "layer"),
  sites: (count: number) => plural(count, "site"),
  heads: (count: number) => plural(count, "head"),
  kvHeads: (count: number) => plural(count, "KV head"),

  show: "Show",
  allHeads: "all heads",
  nextWord: "next word",
  importance: "importance",
  named: "heads named",
  noName: (count: number) => `no name (${count})`,
  order: "Order of the heads",
  orders: { layers: "layers", ranked: "ranked" },

  head: (name: string) => `Head ${name}`,
  walk: "All heads, layer by head. Arrow keys walk.",
  score: "score",
  bestFirst: (columns: number) => `best first, ${columns} per row`,
  save: "the grid",
  picture: (model: string) => `${model}, all heads`,
  column: "head",

  darker: "The darker, the more a head pushes",
  orAgainst: ", or against it. Under the pointer: its pattern.",
  otherHeads: "The two models have different heads, so their grids cannot be compared. You see the first.",
  rightMinusLeft: (title: string) => `${title}, right minus left:`,
  blue: "blue",
  moreRight: "is more on the right,",
  ochre: "ochre",
  moreLeft: "more on the left.",
  differently:
    "The darker, the more differently a head answers left and right: the largest difference among the questions about shares.",
  askedAt: (tokens: number) => `Asked at ${plural(tokens, "token")} of this text.`,
  nowhere: "This text gives no place to ask.",
  likeliest: "the likeliest next token",
  whichPush: "Which heads push",
  ratherThan: " rather than ",
  againstIt: ", or against it?",
  lossOn: (text: string) =>
    `How much the loss on ${text} would change without a head, at first order, in nats per token.`,
  firstTokens: (count: string) => `the first ${count} tokens`,
  thisText: "this text",
  measuring: "Measuring how much each head matters on this text.",
  noRole: "Tested, and no role earned. Most roles are rare; many heads do several things, or none that has a name.",
  earned: (heads: string, all: string, only: string) =>
    `${heads} of ${all} heads earned this name, ${only} of them no other.`,
  haveName: (all: string) => `of ${all} heads have a name`,
  resting: (jobs: string, resting: string) => `: ${jobs} for a job, ${resting} only for resting on the first token`,
  haveNone: (heads: number): string => (heads === 1 ? "has none." : "have none."),
  untested: "heads. None has been tested for a name yet.",

  papers: "Papers speak of these heads",
  outcomes: { agrees: "these weights agree", differs: "these weights differ", "not tested": "not tested here" },
  rank: (score: string, rank: number | null) => `: ${score}, rank ${rank}`,
  published: (score: string) => `; published ${score}`,
  marks: "● these weights agree · ○ they differ · · not tested",
};
