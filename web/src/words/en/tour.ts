// The tour: six stops, each one sentence before and one after the student has done the stop's one thing.
export default {
  label: "The tour",
  title: (stop: number, name: string) => `${stop}. ${name} · headscope`,
  back: "Back",
  next: "Next",
  finish: "Go on in the microscope",
  leave: "Leave the tour",
  of: (stop: number, stops: number) => `Stop ${stop} of ${stops}`,
  waiting: "Waiting for the model's results …",
  failed: (why: string) => `The model could not be run: ${why}`,
  again: "Try again",
  oneHead: {
    before:
      "Here is one head for *it*, with numbers. Its shares are set by hand for now. Each word has a value: the row of numbers that it hands over. The head adds up share × value, word by word. Drag the share of **animal** down, and watch the bold sum o₁.",
    after:
      "The sum o₁ moved towards the values of the words with larger shares. Whatever a head attends to, it returns one sum.",
  },
  shares: {
    before:
      "In a model the shares are computed. From x, the numbers of *it*, a learned table W_Q makes a query. Each word has a key. Query times key is the word's score, and softmax turns the scores into shares. Change a number of x or of W_Q, and watch the shares.",
    after: "A new query gives new scores and new shares. W_Q is learned: that is how a head gets its question.",
  },
  twoHeads: {
    before:
      "A second head asks its own question about the same word. The shares are set by hand again. Change a share of head 2, and watch o₁.",
    after: "o₂ changed and o₁ did not: each head has its own output.",
  },
  mixed: {
    before:
      "The two outputs are joined end to end. W_O, another learned table, turns them into the result y. Switch it from identity, which changes nothing, to mixing.",
    after:
      "Now every number of y is made from both heads. W_O does not choose between heads: it combines the outputs of all of them.",
  },
  realHeads: {
    tested: (heads: number, named: number, resting: number, head: string) =>
      `These are ${heads} real heads of this model, each with its pattern on this text. ${named} of them passed a test for a role: ${named - resting} for something specific, ${resting} only for attending to the first token of random words. Find head ${head} in the grid, and select it. A head is written layer.head, both counted from 0.`,
    here: (heads: number, head: string) =>
      `These are ${heads} real heads of this model, each with its pattern on this text. None has been tested for a role yet. Head ${head} finds the earlier copy of the current token and attends to what followed it. Find it in the grid, and select it. A head is written layer.head, both counted from 0.`,
    pushes: (heads: number, head: string) =>
      `These are ${heads} real heads of this model, each with its pattern on this text. None of them looks for what followed an earlier copy; head ${head} contributes most to the prediction. Find it in the grid, and select it. A head is written layer.head, both counted from 0.`,
    afterInduction: (last: string, reads: string) =>
      `This is an induction head: from *${last}* it attends to **${reads}**, which came after the same words earlier in the text.`,
    after: (last: string, reads: string) => `From *${last}* this head attends most to **${reads}**.`,
  },
  switchOff: {
    before: (text: string, token: string, before: string, head: string) =>
      `“${text} …”: the model expects **${token}** next, with ${before}%. Switch head ${head} off, and see what it expects then.`,
    lost: (token: string, before: string, after: string, head: string) =>
      `Without head ${head}, **${token}** falls from ${before}% to ${after}%. Most of this prediction depended on this one head.`,
    kept: (token: string, before: string, after: string, head: string) =>
      `Without head ${head}, **${token}** changes from ${before}% to ${after}%. The prediction here does not depend on this one head.`,
    none: (head: string) =>
      `This model does not predict a next token, so there is nothing to measure here. Head ${head} stays selected; continue in the microscope.`,
  },
};
