// The microscope's pattern of one head.
export default {
  head: "Head",
  shares: "shares",
  keys: "keys",
  and: "and",
  values: "values",
  withHeads: (heads: string) => `with ${heads}`,
  knockOut: "Knock out",
  knockOutWhy: "Knock out arrows: click a cell to hide that key from this query",
  drawn: "How the pattern is drawn",
  heatMap: "Heat map",
  arcs: "Arcs",
  saveArcs: "these arcs",
  cutting: "Click a cell to cut its arrow, again to mend it: the query then shares its attention among the others.",
  seeNext: "What that does to the prediction stands under Next token.",
  zoomIn: "Zoom in until single tokens show.",
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
  strongest: (query: string, key: string, weight: string) => `${query} reads ${key} ${weight}`,
  verbs: { weight: "reads", row: "of its most goes to", value: "carries from" },
  cut: "cut",
  atMost: "at most ",
  received: "received",
  overview: "whole text",

  sink: "A sink: when a head has nothing to say it rests on the first token, since its attention weights must sum to one. Setting it aside shows what else it reads. The other weights are not rescaled.",
  aside: "first token aside",
  measure: "What the colours measure",
  measures: {
    weight: {
      name: "attention weight",
      short: "weight",
      title: "The attention weights themselves; each row sums to one.",
    },
    row: {
      name: "part of its row’s largest",
      short: "by row",
      title:
        "Each row divided by its own largest weight, so that weak rows can be read. With the first token set aside, by the largest of the others.",
    },
    value: {
      name: "weight × value",
      short: "× value",
      title:
        "The weight times the length of the value vector it carries, before W_O: how much can arrive. Sinks often carry little.",
    },
  },

  save: "this pattern",
  picture: (model: string, head: string) => `${model}, head ${head}`,
  inPicture: {
    row: ", each row in parts of its largest weight",
    value: ", weight × length of the value vector",
  },
  pooled: (side: number) => `, the largest of each ${side} × ${side}`,

  reads: "reads",
  isReadBy: "is read by",
  repeated: (place: number) => `token ${place}: this word stands here more than once`,
  inAll: (sum: string, tokens: number) => `${sum} in all, from ${tokens} tokens.`,
  notDrawn: (weight: string) => `${weight} on the first token is not drawn; the rest is not rescaled.`,
};
