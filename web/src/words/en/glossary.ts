// The glossary: each term in two sentences, the forms under which it stands in a text, and its figure in words.
export interface TermWords {
  name: string;
  forms: string[];
  says: string;
  figure: string; // the figure's text alternative
  labels: string[]; // the words inside the figure, in the order in which figures.ts uses them
}

const terms = {
  token: {
    name: "Token",
    forms: ["token", "tokens"],
    says: "A piece of text that the model reads as one: a common word, or a part of a rare one. The model has a fixed list of them, and knows each by its number in that list.",
    figure: "The word tiredness, cut into the two tokens tired and ness, each with its number",
    labels: ["tired", "ness"],
  },
  vector: {
    name: "Vector",
    forms: ["vector", "vectors"],
    says: "A row of numbers that stands for a token inside the model. Two rows that are alike stand for tokens that the model treats alike.",
    figure: "Two rows of numbers that are nearly alike, horse and donkey, and one that differs, because",
    labels: ["horse", "donkey", "because"],
  },
  query: {
    name: "Query",
    forms: ["query", "queries"],
    says: "What a token asks: a vector, made from it by the head's matrix W_Q. It is compared with the key of every token that may be read, and the better they match, the larger the share.",
    figure: "An arrow for what it asks, close to the arrow of animal and far from that of road",
    labels: ["it asks", "animal", "road"],
  },
  key: {
    name: "Key",
    forms: ["key", "keys"],
    says: "How a token can be found: a vector, made from it by the head's matrix W_K. A query that points the same way gives a high score.",
    figure: "Arrows for the keys of animal, road and tired, each in its own direction",
    labels: ["animal", "road", "tired"],
  },
  value: {
    name: "Value",
    forms: ["value vector", "value vectors", "values"],
    says: "What a token hands over when it is read: a vector, made from it by the head's matrix W_V. A head brings home the average of these vectors, each weighed by its share.",
    figure: "The values of animal and tired, shrunk to their shares .8 and .2 and added",
    labels: ["animal × .8", "tired × .2", "sum"],
  },
  score: {
    name: "Score",
    forms: ["attention score", "attention scores"],
    says: "Query times key: multiply the two vectors number by number and add up. Divided by the root of how many numbers there are, it goes into the softmax.",
    figure: "A query and a key, multiplied number by number, and the sum 2.1",
    labels: ["query", "key", "2.1"],
  },
  softmax: {
    name: "Softmax",
    forms: ["softmax"],
    says: "Turns scores into shares: e to the power of each score, divided by the sum of all. Every share is above zero, they add up to 1, and a score one higher makes a share 2.7 times as large.",
    figure: "The scores 2, 1 and 0 become the shares .67, .24 and .09",
    labels: ["2", "1", "0", ".67", ".24", ".09"],
  },
  weight: {
    name: "Attention weight",
    forms: ["attention weight", "attention weights"],
    says: "The share of a head's attention that one token gives to another, computed anew for every text. The learned numbers in a model's matrices are called weights too, and are another thing.",
    figure: "The weights of one query: .1, .6, .1 and .2, which add up to 1",
    labels: ["animal", "road", "because", "tired"],
  },
  head: {
    name: "Head",
    forms: ["attention head", "attention heads"],
    says: "One question that every token puts to the others, with its own W_Q, W_K and W_V. Its answer, for each token, is one average of the values that it read.",
    figure: "The word it reads animal strongly and tired weakly",
    labels: ["animal", "tired", "it"],
  },
  pattern: {
    name: "Attention pattern",
    forms: ["attention pattern", "attention patterns"],
    says: "All the attention weights of one head on one text, as a table: a row for each token that reads, a column for each that is read. Every row adds up to 1; darker is more.",
    figure: "A table of shares, a row for each token",
    labels: ["reads", "is read"],
  },
  causal: {
    name: "Why the pattern is a triangle",
    forms: ["causal"],
    says: "A model that writes from left to right may read what stands before a token, and the token itself, but nothing that comes later. So every row ends at the diagonal, and the other half of the table stays empty.",
    figure: "A table whose upper right half is empty: the third token reads the first three",
    labels: ["1", "2", "3", "4"],
  },
  encoder: {
    name: "Encoder",
    forms: ["encoder", "encoders", "bidirectional"],
    says: "A model that reads a whole text at once and writes none, such as BERT. Every token may read every other, later ones too, so its patterns are full squares.",
    figure: "A table that is filled on both sides of the diagonal",
    labels: ["1", "2", "3", "4"],
  },
  logit: {
    name: "Logit",
    forms: ["logit", "logits"],
    says: "The score that a model gives each possible next token, before softmax turns the scores into probabilities. One logit more makes a token 2.7 times as likely beside the others.",
    figure: "Logits of river 3, water 2 and bridge minus 1, and their probabilities",
    labels: ["river", "water", "bridge"],
  },
  attribution: {
    name: "Logit attribution",
    forms: ["logit attribution"],
    says: "A logit is a sum, and each head has added its part to it. Logit attribution shows these parts: which heads push a token up, and which push it down.",
    figure: "Two parts to the right and one to the left, and their sum",
    labels: ["+2", "+1", "−1", "2"],
  },
  entropy: {
    name: "Entropy",
    forms: ["entropy"],
    says: "How widely a head spreads its attention, in nats. It is 0 when one token gets everything, and grows the more evenly the shares are spread.",
    figure: "One token with everything, entropy 0; four with a quarter each, entropy 1.39",
    labels: ["0", "1.39"],
  },
  nats: {
    name: "Nats",
    forms: ["nats", "nat"],
    says: "The unit of entropy, KL and loss, counted with the natural logarithm. A choice between two equally likely things is .69 nats, one among a hundred 4.6.",
    figure: "2 things are .69 nats, 10 are 2.3, 100 are 4.6",
    labels: ["2", "10", "100", ".69", "2.3", "4.6"],
  },
  kl: {
    name: "KL",
    forms: ["KL", "KL divergence"],
    says: "How far one list of probabilities lies from another, in nats: here the model's prediction, and the same with a change made. 0 means that nothing changed; below .01 is hardly seen.",
    figure: "Probabilities before a change, filled, and after it, open",
    labels: ["river", "water", "bridge"],
  },
  residual: {
    name: "Residual stream",
    forms: ["residual stream", "residual"],
    says: "The vector that a token carries through the model. Every layer reads it and adds its result to it; nothing is replaced.",
    figure: "A line from the token to the next token; two layers read from it and add to it",
    labels: ["attention", "MLP"],
  },
  layer: {
    name: "Layer",
    forms: ["layer", "layers"],
    says: "One step of the model: several heads side by side, then a small network for each token on its own. A head in a later layer reads what earlier layers have found.",
    figure: "Three layers, one above the other, each with four heads",
    labels: ["2", "1", "0"],
  },
  zeroAblation: {
    name: "Zero ablation",
    forms: ["zero ablation", "ablation", "ablated", "ablate"],
    says: "A head is switched off by putting zeros in place of what it brings home. If the prediction changes, the head mattered here; zeros are unusual, so the change can be too large.",
    figure: "A head's numbers, and zeros in their place",
    labels: ["as is", "off"],
  },
  meanAblation: {
    name: "Mean ablation",
    forms: ["mean ablation"],
    says: "A head is switched off by putting its average in place of what it brings home. What it always adds stays, and only what it found here is lost.",
    figure: "A head's numbers, and their average over the text in their place",
    labels: ["as is", "mean"],
  },
  concatenate: {
    name: "Concatenate",
    forms: ["concatenate", "concatenated", "concatenation"],
    says: "To lay rows of numbers end to end: two heads with four numbers each give eight. Nothing is added or chosen; each head keeps its own places.",
    figure: "Two rows of four numbers become one row of eight",
    labels: ["head 1", "head 2"],
  },
  outputMatrix: {
    name: "W_O, the output matrix",
    forms: ["W_O", "output matrix"],
    says: "The learned matrix that mixes what all heads bring home into one vector. It does not choose between heads: every number of the result is made from all of them.",
    figure: "A row of eight numbers, times a table, is a row of eight mixed numbers",
    labels: ["W", "O"],
  },
  kvHead: {
    name: "KV head",
    forms: ["KV head", "KV heads"],
    says: "Heads may share keys and values, so that less has to be kept in memory while a text is written. 32 heads with 8 KV heads: four heads at a time ask their own questions of the same keys.",
    figure: "Four queries share one pair of key and value, twice",
    labels: ["query", "key and value"],
  },
  induction: {
    name: "Induction",
    forms: ["induction"],
    says: "Going on as before: at a token that stood in the text earlier, look at what came after it then. Heads that do this let a model repeat and continue patterns.",
    figure: "white horse … white: the second white reads horse, which came after the first",
    labels: ["white", "horse", "…", "white"],
  },
} satisfies Record<string, TermWords>;

export default {
  close: "Close",
  onThisPage: "Words on this page",
  terms: terms as Record<keyof typeof terms, TermWords>,
};
