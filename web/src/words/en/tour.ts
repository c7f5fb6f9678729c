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
      "One head for *it*, with numbers; its shares are set by hand for now. Each word has a value, the row of numbers that it hands over. The head adds up share × value, word by word. Drag the share of **animal** down, and watch the bold sum o₁.",
    after:
      "The sum o₁ moved towards the values of the words that got more. One head brings home one sum, whatever it reads.",
  },
  shares: {
    before:
      "In a model nobody sets the shares: they are computed. From x, the numbers of *it*, a learned table W_Q makes a query. Each word has a key; query times key is its score, and softmax makes shares of the scores. Change a number of x or of W_Q, and watch the shares.",
    after: "Another query, other scores, other shares. W_Q is learned: that is how a head gets its question.",
  },
  twoHeads: {
    before:
      "A second head reads the same word with a question of its own. The shares are set by hand again. Change one of head 2, and watch o₁.",
    after: "o₂ changed and o₁ did not: each head brings home its own answer.",
  },
  mixed: {
    before:
      "The two answers are laid end to end, and W_O, one more learned table, makes the result y of them. Switch it from identity, which changes nothing, to mixing.",
    after:
      "Now every number of y is made from both heads. W_O does not choose between heads: it adds up what all of them bring home.",
  },
  realHeads: {
    tested: (heads: number, named: number, resting: number, head: string) =>
      `${heads} real heads of this model, each with its pattern on this text. In tests ${named} of them earned a name: ${named - resting} for a job, ${resting} only for resting on the first token. Find head ${head} in the grid, and select it: a head is written layer.head, both counted from 0.`,
    here: (heads: number, head: string) =>
      `${heads} real heads of this model, each with its pattern on this text. None has been tested for a role; head ${head} reads what came next before. Find it in the grid, and select it: a head is written layer.head, both counted from 0.`,
    pushes: (heads: number, head: string) =>
      `${heads} real heads of this model, each with its pattern on this text. None of them looks for what came next before; head ${head} does most for the next token. Find it in the grid, and select it: a head is written layer.head, both counted from 0.`,
    afterInduction: (last: string, reads: string) =>
      `An induction head: from *${last}* it reads **${reads}**, which came after the same words earlier in the text.`,
    after: (last: string, reads: string) => `From *${last}* this head reads **${reads}** most.`,
  },
  switchOff: {
    before: (text: string, token: string, before: string, head: string) =>
      `“${text} …”: the model expects **${token}** next, with ${before} %. Switch head ${head} off, and see what it expects then.`,
    lost: (token: string, before: string, after: string, head: string) =>
      `Without head ${head}, **${token}** falls from ${before} % to ${after} %. Most of that hung on this one head.`,
    kept: (token: string, before: string, after: string, head: string) =>
      `Without head ${head}, **${token}** goes from ${before} % to ${after} %: in this model other heads do the same work, and no single one is needed here.`,
    none: (head: string) =>
      `This model predicts no next token, so there is nothing to lose here. Head ${head} stays selected; go on in the microscope.`,
  },
};
