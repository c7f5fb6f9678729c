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
  named: "heads with a role",
  noName: "no role",
  bracket: (size: number) => `A bracket joins the ${size} heads that share keys and values.`,
  order: "Order of the heads",
  orders: { layers: "layers", ranked: "ranked" },

  head: (name: string) => `Head ${name}`,
  walk: "All heads, layer by head. Arrow keys walk.",
  score: "score",
  bestFirst: (columns: number) => `best first, ${columns} per row`,
  save: "the grid",
  picture: (model: string) => `${model}, all heads`,
  column: "head",

  darker: "The darker, the more a head raises",
  orAgainst: " or lowers it. Hover over a head to see its pattern.",
  otherHeads: "The two models have different heads, so their grids cannot be compared. You see the first.",
  rightMinusLeft: (title: string) => `${title}, right minus left:`,
  blue: "blue",
  moreRight: "is more on the right,",
  ochre: "ochre",
  moreLeft: "more on the left.",
  differently:
    "The darker, the more a head's scores differ between left and right: the largest difference among the questions about shares.",
  askedAt: (tokens: number) => `Applies at ${plural(tokens, "token")} of this text.`,
  nowhere: "This question never applies in this text.",
  likeliest: "the most likely next token",
  whichPush: "Which heads raise",
  ratherThan: " rather than ",
  againstIt: ", and which lower it?",
  lossOn: (text: string) =>
    `Estimated change in the loss on ${text} (nats per token) if the head were removed. A first-order (gradient) estimate, not an ablation.`,
  firstTokens: (count: string) => `the first ${count} tokens`,
  thisText: "this text",
  measuring: "Measuring how much each head matters on this text.",
  noRole:
    "Tested; passed no role test. That is common: many heads do several things, or something that has no name yet.",
  earned: (heads: string, all: string, only: string) =>
    `${heads} of ${all} heads passed the test for this role; ${only} of them have no other role.`,
  untested: "heads. None has been tested for a role yet.",

  papers: "Papers describe these heads",
  outcomes: { agrees: "found here", differs: "not found here", "not tested": "not tested", yet: "not tested yet" },
  rank: (score: string, rank: number | null) => `: ${score}, rank ${rank}`,
  published: (score: string) => `; published ${score}`,
  marks: "● found here · ○ not found here · · not tested",
};
