// The tour: six stops, each one sentence before and one after the student has done the stop's one thing.
export default {
  label: "The tour",
  title: (stop: number, name: string) => `${stop}. ${name} · headscope`,
  back: "Back",
  next: "Next",
  finish: "Go on in the microscope",
  leave: "Leave the tour",
  of: (stop: number, stops: number) => `Stop ${stop} of ${stops}`,
  waiting: "The model is being read",
  failed: (why: string) => `The model could not be asked: ${why}`,
  again: "Try again",
  oneHead: {
    before:
      "The same head, now with its numbers. Each word has a value, the row of numbers that it hands over; the head adds up share × value, word by word. Drag the share of **animal** down, and watch the bold sum o₁.",
    after:
      "The sum o₁ moved towards the values of the words that got more. One head brings home one sum, whatever it reads.",
  },
  shares: {
    before:
      "Nobody drags shares in a model: it computes them. *it* makes a query, each word has a key, and query times key is a score. The query is made of x, the numbers of *it*, by a table of weights called W_Q. Change a number of x or of W_Q, and watch the shares follow.",
    after:
      "Another query, other scores, and softmax made other shares of them. W_Q is learned: that is how a head gets its question.",
  },
  twoHeads: {
    before: "Two heads read the same word with two questions. Change a share of head 2, and watch o₁.",
    after: "o₂ changed and o₁ did not: each head keeps its own answer.",
  },
  mixed: {
    before: "The two sums are laid end to end, and W_O makes the result of them. Switch it from identity to mixing.",
    after:
      "Now every number of y is made from both heads. W_O does not choose between heads; it adds up what all of them say.",
  },
  realHeads: {
    tested: (heads: number, named: number, resting: number, head: string) =>
      `${heads} real heads of this model, each with its pattern on this text. In tests ${named} of them earned a name, ${resting} of those only for resting on the first token. Find head ${head} in the grid, and select it: a head is written layer.head, both counted from 0.`,
    here: (heads: number, head: string) =>
      `${heads} real heads of this model, each with its pattern on this text. None has been tested for a role; head ${head} reads what came next before. Find it in the grid, and select it: a head is written layer.head, both counted from 0.`,
    pushes: (heads: number, head: string) =>
      `${heads} real heads of this model, each with its pattern on this text. None of them looks for what came next before; head ${head} does most for the next token. Find it in the grid, and select it: a head is written layer.head, both counted from 0.`,
    afterInduction: (last: string, reads: string) =>
      `An induction head: from *${last}* it reads **${reads}**, which came after the same words earlier in the text.`,
    after: (last: string, reads: string) => `From *${last}* this head reads **${reads}** most.`,
  },
  switchOff: {
    before: (token: string, before: string, head: string) =>
      `The model expects **${token}** with ${before} %. Switch head ${head} off, and see what it expects then.`,
    lost: (token: string, before: string, after: string, head: string) =>
      `Without head ${head}, **${token}** falls from ${before} % to ${after} %. Most of that hung on this one head.`,
    kept: (token: string, before: string, after: string, head: string) =>
      `Without head ${head}, **${token}** goes from ${before} % to ${after} %: in this model other heads do the same work, and no single one is needed here.`,
    none: (head: string) =>
      `This model predicts no next token, so there is nothing to lose here. Head ${head} stays selected; go on in the microscope.`,
  },
};
