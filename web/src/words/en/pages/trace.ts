// A prediction traced back to the tokens it comes from.
export default {
  open: "Trace it back",
  openTitle: "Which heads brought this prediction, from which tokens, and why they looked there",
  close: "Close the trace",
  title: (token: string) => `Where does *${token}* come from?`,
  copied: (token: string, writer: string, before: string, head: string) =>
    `The model copied *${token}* from where it stood before: head **${writer}** wrote “after *${before}*” on it, head **${head}** found it.`,
  carried: (token: string, head: string, word: string, share: string) =>
    `Of the heads, **${head}** adds most to *${token}* by what it read at *${word}* (${share}).`,
  noHead: (token: string) =>
    `No head above the floor moves anything towards *${token}*: it comes from what stands at this place.`,
  largest: (part: string, share: string, total: string) => `The largest part is **${part}**: ${share} of ${total}.`,
  floor: "leave out below",
  working: "Tracing the prediction back …",
  layer: (layer: string) => `layer ${layer}`,
  sum: "The sum",
  logitOf: (token: string) => `logit of *${token}*`,
  constant: "constant",
  leftOut: (count: number) => (count === 1 ? "1 other" : `${count} others`),
  leftOutLine: (count: number, sum: string, up: string, down: string) =>
    `Not drawn: ${count} parts below the floor, together ${sum}: ${up} up, ${down} down. Sums end at an MLP; what hangs on it is measured by cutting.`,
  below: (count: number, sum: string, up: string, down: string) => `${count} more: ${sum} (${up} ${down})`,
  total: "logit",
  rests: "rests on the first token",
  restsList: (heads: string) => `Resting on the first token: ${heads}.`,
  read: (word: string, share: string, weight: string) => `read *${word}*: ${share} (weight ${weight})`,
  foundBy: "found by",
  askedBy: "asked by",
  wroteIt: "what it carried was written by",
  cut: (writer: string) => `cut ${writer}`,
  why: "Why there?",
  back: "The whole sum",
  ends: "the chain of exact sums ends here",
  keyLine: (writer: string, place: string, head: string, part: string, total: string) =>
    `${writer} at ${place} → key of ${head}: ${part} of ${total}`,
  queryLine: (writer: string, head: string, part: string, total: string) =>
    `${writer} → query of ${head}: ${part} of ${total}`,
  valueLine: (word: string, head: string, share: string) => `${word} → ${head}: carried ${share}`,
  ribbon: (part: string, share: string, token: string) => `${part} → ${token}: ${share}`,
  adds: "adds to the logit",
  carries: "carries what was read",
  found: "why it was found (key)",
  asks: "who asked (query)",
  head: "head",
  mlp: "MLP",
  width: "width: its share of the logit",
  hint: "Point at a line for its number; press a part to follow it.",
  folded: (count: number) => (count === 1 ? "… 1 token" : `… ${count} tokens`),
  picture: (token: string) => `How ${token} came about: tokens on the left, the prediction on the right`,
  notInFile:
    "This file holds the trace of the likeliest token after the last one. For any other, open the text in headscope.",
  needsModel: "A trace needs the model: open this text in headscope.",
};
