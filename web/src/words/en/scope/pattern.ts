// The microscope's pattern of one head.
export default {
  head: "Head",
  shares: "Shares",
  keys: "keys",
  and: "and",
  values: "values",
  withHeads: (heads: string) => `with ${heads}.`,
  knockOut: "Knock out",
  knockOutWhy: "Switch this head off: its output is replaced, and everything after it is computed without it",
  cutArrows: "Cut arrows",
  drawn: "How the pattern is drawn",
  heatMap: "Heat map",
  arcs: "Arcs",
  saveArcs: "these arcs",
  cutting:
    "Press a cell to cut this arrow, and again to restore it. The query then divides its attention among the other keys.",
  seeNext: "Next token shows how this changes the prediction.",
  zoomIn: "Zoom in until you see single tokens.",
  tokensOf: (span: number, all: number) => `${span} of ${all} tokens.`,
  wholeText: "Whole text",
  wheelOr: "Wheel or",
  toZoom: "to zoom, drag to move.",
  around: "Around the selected token",

  arcsOf: (head: string) => `Pattern of head ${head} as arcs. Arrow keys choose the word.`,
  mapOf: (head: string, strongest: string) => `Pattern of head ${head}. ${strongest}. Arrow keys choose the row`,
  zoomKeys: ", plus and minus zoom",
  cutKeys: ", left and right a cell, Enter cuts it",
  askKeys: ", left and right a cell, Enter asks why",
  strongest: (query: string, key: string, weight: string) => `${query} attends to ${key} ${weight}`,
  verbs: { weight: "attends to", row: "relative weight on", value: "weight × value of" },
  cut: "cut",
  atMost: "at most ",
  received: "received",
  overview: "whole text",

  sink: "An attention sink: weights must sum to 1, so a head that finds nothing relevant puts them on the first token. Hide it to see the rest; the other weights are not rescaled.",
  aside: "hide first token",
  measure: "What the colours measure",
  measures: {
    weight: {
      name: "attention weight",
      short: "weight",
      title: "The attention weights themselves; each row sums to 1.",
    },
    row: {
      name: "part of its row’s largest",
      short: "by row",
      title:
        "Each row divided by its own largest weight, so that you can see weak rows. With the first token hidden, by the largest of the others.",
    },
    value: {
      name: "weight × value",
      short: "× value",
      title:
        "The weight times the length of the value vector, before W_O: how much can be moved. For sinks this is often small.",
    },
  },

  save: "this pattern",
  picture: (model: string, head: string) => `${model}, head ${head}`,
  inPicture: {
    row: ", each row in parts of its largest weight",
    value: ", weight × length of the value vector",
  },
  pooled: (side: number) => `, the largest of each ${side} × ${side}`,

  reads: "attends to",
  isReadBy: "is attended to by",
  repeated: (place: number) => `token ${place}: this word occurs here more than once`,
  inAll: (sum: string, tokens: number) => `${sum} in total, from ${tokens} tokens.`,
  notDrawn: (weight: string) => `${weight} on the first token is hidden; the rest is not rescaled.`,
};
