// The glossary: each term in two sentences, and its forms in a text.
interface TermWords {
  name: string;
  forms: string[];
  says: string;
}

const terms = {
  token: {
    name: "Token",
    forms: ["token", "tokens"],
    says: "A piece of text that the model reads as one unit: a common word, or a part of a rare one. The model has a fixed list of tokens, and identifies each by its number in that list.",
  },
  vector: {
    name: "Vector",
    forms: ["vector", "vectors"],
    says: "A row of numbers that stands for a token inside the model. Similar rows stand for tokens that the model treats in similar ways.",
  },
  query: {
    name: "Query",
    forms: ["query", "queries"],
    says: "What a token asks: a vector, made from it by the head's matrix W_Q. It is compared with the key of every token that it may attend to: the better they match, the larger the share.",
  },
  key: {
    name: "Key",
    forms: ["key", "keys"],
    says: "How a token can be found: a vector, made from it by the head's matrix W_K. A query that points the same way gives a high score.",
  },
  value: {
    name: "Value",
    forms: ["value vector", "value vectors", "values"],
    says: "What a token hands over when it is attended to: a vector, made from it by the head's matrix W_V. A head's output is the average of these vectors, each weighted by its share.",
  },
  score: {
    name: "Score",
    forms: ["attention score", "attention scores"],
    says: "Query times key: multiply the two vectors number by number and add up. Divided by the square root of their length, it goes into the softmax.",
  },
  softmax: {
    name: "Softmax",
    forms: ["softmax"],
    says: "Turns scores into shares: e to the power of each score, divided by the sum of all. Every share is above zero, they add up to 1, and a score one higher makes a share 2.7 times as large.",
  },
  weight: {
    name: "Attention weight",
    forms: ["attention weight", "attention weights"],
    says: "The share of a head's attention that one token gives to another, computed again for every text. The learned numbers in a model's matrices are also called weights, but they are something else.",
  },
  head: {
    name: "Head",
    forms: ["attention head", "attention heads"],
    says: "One question that every token puts to the others, with its own W_Q, W_K and W_V. Its output, for each token, is one weighted average of the values.",
  },
  pattern: {
    name: "Attention pattern",
    forms: ["attention pattern", "attention patterns"],
    says: "All the attention weights of one head on one text, as a table: a row for each query token, a column for each key token. Every row adds up to 1; darker is more.",
  },
  causal: {
    name: "Why the pattern is a triangle",
    forms: ["causal"],
    says: "In a model that writes from left to right, a token may attend to itself and to what comes before it, but not to what comes later. So every row ends at the diagonal, and the other half of the table stays empty.",
  },
  encoder: {
    name: "Encoder",
    forms: ["encoder", "encoders", "bidirectional"],
    says: "A model that reads a whole text at once and does not write, such as BERT. Every token may attend to every other, even later ones, so its patterns are full squares.",
  },
  logit: {
    name: "Logit",
    forms: ["logit", "logits"],
    says: "The score that a model gives each possible next token, before softmax turns the scores into probabilities. One logit more makes a token 2.7 times as likely relative to the others.",
  },
  attribution: {
    name: "Logit attribution",
    forms: ["logit attribution"],
    says: "A logit is a sum, and each head contributes to it. Logit attribution shows these contributions: which heads raise a token, and which lower it.",
  },
  entropy: {
    name: "Entropy",
    forms: ["entropy"],
    says: "How widely a head spreads its attention, in nats. It is 0 when one token gets everything, and larger when the shares are more even.",
  },
  nats: {
    name: "Nats",
    forms: ["nats", "nat"],
    says: "The unit of entropy, KL and loss, based on the natural logarithm. A choice between two equally likely things is .69 nats, one among a hundred 4.6.",
  },
  kl: {
    name: "KL",
    forms: ["KL", "KL divergence"],
    says: "How much two lists of probabilities differ, in nats: here the model's prediction, with and without a change. 0 means that nothing changed; below .01 is hard to see.",
  },
  residual: {
    name: "Residual stream",
    forms: ["residual stream", "residual"],
    says: "The vector of a token on its way through the model. Every layer reads it and adds its output to it; nothing is replaced.",
  },
  layer: {
    name: "Layer",
    forms: ["layer", "layers"],
    says: "One step of the model: several heads side by side, then a small network that works on each token separately. A head in a later layer can use what earlier layers have written.",
  },
  zeroAblation: {
    name: "Zero ablation",
    forms: ["zero ablation", "ablation", "ablated", "ablate"],
    says: "The head's output is replaced by zeros. If the prediction changes, the head mattered here. Zeros are unlike anything the model has seen, so this can overstate the head's effect.",
  },
  meanAblation: {
    name: "Mean ablation",
    forms: ["mean ablation"],
    says: "The head's output is replaced by its average over the text. What it always adds stays; only what it found at single positions is lost.",
  },
  concatenate: {
    name: "Concatenate",
    forms: ["concatenate", "concatenated", "concatenation"],
    says: "To join rows of numbers end to end: two heads with four numbers each give eight. Nothing is added or chosen; each head keeps its own numbers.",
  },
  outputMatrix: {
    name: "W_O, the output matrix",
    forms: ["W_O", "output matrix"],
    says: "The learned matrix that mixes the outputs of all heads into one vector. It does not choose between heads: every number of the result is made from all of them.",
  },
  kvHead: {
    name: "KV head",
    forms: ["KV head", "KV heads"],
    says: "Heads may share keys and values, so that less has to be kept in memory while a text is written. With 32 heads and 8 KV heads, four heads share each set of keys and values.",
  },
  induction: {
    name: "Induction",
    forms: ["induction"],
    says: "Continuing a pattern: when a token has occurred before, attend to what followed it last time. Heads that do this let a model repeat and continue patterns.",
  },
} satisfies Record<string, TermWords>;

export default {
  close: "Close",
  onThisPage: "Words on this page",
  terms: terms as Record<keyof typeof terms, TermWords>,
};
