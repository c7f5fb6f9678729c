// The microscope's cards about the selected head: its role, its scores, left and right.
export default {
  head: (name: string) => `Head ${name}`,
  rank: "rank",
  scoreAndRank: (score: string, rank: number | null) => `: ${score}, rank ${rank}`,

  comparison: {
    title: (name: string) => `Head ${name}, left and right`,
    unknown: (name: string) => `the right model has no such head; you see its ${name}`,
    question: "Question",
    left: "left",
    both: "Both",
    right: "right",
    difference: "difference",
  },

  scores: {
    title: "Its scores",
    amongAll: "on this text, among all heads",
    others: (heads: string) => `on this text; grey: the other ${heads} heads`,
    save: "the answers",
    rankBy: (question: string) => `${question} Click to rank all heads by it.`,
    of: (heads: string) => ` of ${heads}`,
    notAsked: "not asked of this head",
    nothing: "nothing to find in this text",
    picture: (model: string, head: string, heads: number) => `${model}, head ${head} among ${heads} heads`,
    columns: { question: "question", answer: "answer", rank: "rank", heads: "heads" },
  },

  arcs: {
    picture: (model: string, head: string) => `${model}, head ${head}`,
    columns: { query: "query", reads: "reads", key: "key", token: "token", weight: "weight" },
  },

  role: {
    none: "No name",
    also: (roles: string) => `also ${roles}`,
    changes: "changes this text",
    without: "nats KL without it",
    earnedNone: (roles: string, others: string, heads: string) =>
      `Tested for ${roles} roles, and earned none, like ${others} other heads of ${heads}.`,
    nearest: "In the tests it came nearest to these.",
    testedOn: (inputs: string) => `Tested on: ${inputs}.`,
    testing: "Every head is being tested for every role. The microscope answers again when that is done.",
    untested: "This head has not been tested for a role. What stands below describes it on this text alone.",
    test: "Test this model’s heads (takes a minute)",
  },

  details: {
    same: "Same role:",
    more: (heads: number) => `and ${heads} more`,
    alike: "Reads alike here:",
    cosine: (cosine: string) => `Cosine of the two patterns on this text, the first token left out: ${cosine}`,
    alikeBy: (head: string, cosine: string) => `Head ${head}, ${cosine} alike`,
    noneAlike: "No other head reads this text like it.",
    calls: (source: string) => `${source} calls it`,
    outcomes: {
      agrees: "; these weights agree",
      differs: "; these weights differ",
      "not tested": "; these weights have not been tested for it",
    },
    how: "How it was tested",
    marks: (rival: string) =>
      `Dot: this head; line: 95 % interval over inputs; grey: the strongest other answer of the same head${rival}; tick: what the name asks for.`,
    tried: (inputs: number, p: number) => `${inputs} inputs; p = ${p} for the whole model.`,
    control: (score: string) => `The best head of the same model with random weights: ${score}.`,
  },
};
