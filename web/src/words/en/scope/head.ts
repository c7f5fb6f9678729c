// The microscope's cards about the selected head: its role, its scores, left and right.
import catalogue from "../../../../../src/headscope/heads/sentences.json";

export default {
  head: (name: string) => `Head ${name}`,
  rank: "rank",
  scoreAndRank: (score: string, rank: number | null) => `: ${score}, rank ${rank}`,

  comparison: {
    title: (name: string) => `Head ${name}, left and right`,
    unknown: (name: string) => `the right model does not have this head; you see its ${name}`,
    question: "Question",
    left: "left",
    both: "Both",
    right: "right",
    difference: "difference",
  },

  where: {
    title: "Where it looks",
    onThisText: "on this text; grey: by distance alone",
    blind: "What a head with the same mean weight at each distance, blind to what the tokens are, would give.",
    notCounted: (name: string) => `${name} not counted above`,
    rest: (classes: number) => (classes === 1 ? "one other class" : `${classes} other classes`),
    classes: catalogue.classes,
  },

  scores: {
    title: "Its scores on this text",
    amongAll: "among all heads",
    others: (heads: string) => `grey: the other ${heads} heads`,
    save: "the scores",
    rankBy: (question: string) => `${question} Click to rank all heads by it.`,
    of: (heads: string) => ` of ${heads}`,
    notAsked: "does not apply to this head",
    nothing: "never applies in this text",
    picture: (model: string, head: string, heads: number) => `${model}, head ${head} among ${heads} heads`,
    columns: { question: "question", answer: "score", rank: "rank", heads: "heads" },
  },

  arcs: {
    picture: (model: string, head: string) => `${model}, head ${head}`,
    columns: { query: "query", reads: "attends to", key: "key", token: "token", weight: "weight" },
  },

  role: {
    head: (role: string) => `${role} head`,
    none: "No role",
    at: "Here, at",
    attends: ", it attends to",
    first: "the first token",
    and: " and ",
    withoutIt: "Without it,",
    effects: {
      falls: (before: string, after: string) => `falls from ${before} to ${after}.`,
      rises: (before: string, after: string) => `rises from ${before} to ${after}.`,
      keeps: (before: string, after: string) => `hardly changes (${before}, then ${after}).`,
    },
    closest: "no test passed",
    also: (roles: string) => `also ${roles}`,
    changes: "changes this text",
    without: "nats KL without it",
    passedNone: catalogue.roles.none,
    nearest: "It came closest to these roles.",
    testedOn: (inputs: string) => `Tested on: ${inputs}.`,
    testing: "Every head is being tested for every role. You can use the microscope again when that is done.",
    untested: "This head has not been tested for a role. The numbers below are for this text only.",
    test: "Test this model’s heads (takes a minute)",
  },

  details: {
    same: "Same role:",
    more: (heads: number) => `and ${heads} more`,
    alike: "Similar pattern here:",
    cosine: (cosine: string) => `Cosine of the two patterns on this text, without the first token: ${cosine}`,
    alikeBy: (head: string, cosine: string) => `Head ${head}, similarity ${cosine}`,
    noneAlike: "No other head has a similar pattern on this text.",
    calls: (source: string) => `${source} calls it`,
    outcomes: {
      agrees: "; found here",
      differs: "; not found here",
      "not tested": "; these weights have not been tested for it",
    },
    how: "How we know",
    tests: (tests: number) => (tests === 1 ? "one test" : `${tests} tests`),
    place: (question: string, place: number, heads: number) => `${question}: ${place} of ${heads}`,
    like: "Heads like it",
    paper: "Read more:",
    marks: (rival: string) =>
      `Dot: this head; line: 95% interval over inputs; grey: the best competing explanation for the same head${rival}; tick: the threshold for this role.`,
    tried: (inputs: number, p: number) => `${inputs} inputs; p = ${p} for the whole model.`,
    control: (score: string) => `The best head of the same model with shuffled weights: ${score}.`,
  },
};
