// Start: one sentence, one word, one head, one question.
export default {
  title: "What does *it* mean here?",
  name: "Start",
  /** the sentence; `asked` are the words with a share, `reader` the one that reads */
  sentence: "The animal didn't cross the road because it was tired",
  asked: ["animal", "road", "because", "tired"],
  reader: "it",
  voice: {
    untouched:
      "This head looks mostly at **road**. Is that what *it* means? Pull down the bar under the word you would choose.",
    untouchedPhone:
      "This head looks mostly at **road**. Is that what *it* means? Drag the bar of the word you would choose.",
    onTheWay: (word: string) => `Go on. As **${word}** takes more, the others give way: the shares always add up to 1.`,
    road: "Then the road was tired. Try another word.",
    because: "**because** ties the two halves together, but it names nobody. Try another word.",
    tiredFirst: "That says how *it* is. But who is it?",
    who: "Yes, the animal. Now a second question: how is it? Keep **animal**, and pull **tired** down as well.",
    whoPhone: "Yes, the animal. Now a second question: how is it? Keep **animal**, and drag **tired** further as well.",
    blend:
      "Some of both, and *it* is near **road** again, where it began. Both words went in; neither can be read off any more.",
    how: "Now *it* knows how, and has lost who. One head ends in one place, and there are two questions.",
    whoAgain: "Who is back, and how is gone. One head ends in one place, and there are two questions.",
    between: "Look where *it* goes. One head brings home one average, wherever the shares lie.",
    second: "Head 1 stays with **animal**. Let head 2 find out how *it* is: pull *it*₂ down under **tired**.",
    secondPhone: "Head 1 stays with **animal**. Let head 2 find out how *it* is: drag *it*₂ beside **tired**.",
    each: "Give each head one question to answer: one looks for who *it* is, the other for how *it* is.",
    both: "Two heads, two places: each question has an answer of its own. Several heads side by side are called **multi-head** attention.",
  },
  figure: "The shares of it, and where it ends up",
  share: (word: string, head: number, heads: number) =>
    heads > 1 ? `Share of ${word}, head ${head}` : `Share of ${word}`,
  pull: "pull",
  sharesOut: "shares out 1",
  sharesOutTwo: "1 for each",
  plane: "Where *it* ends up: pulled by every word, as strongly as its share",
  planePhone: "Where *it* ends up",
  who: "Who is *it*?",
  how: "How is *it*?",
  whoAnswer: "the animal",
  howAnswer: "tired",
  notKnown: "not known",
  again: "Start again",
  second: "Give it a second head",
  begin: "Begin the tour",
  goOn: (stop: number) => `Go on with stop ${stop}`,
  tour: {
    title: "The tour",
    says: "six stops, about ten minutes, yours to leave at any point",
    lesson: "Or read it as a lesson",
    here: "you are here",
    stops: [
      { name: "One head", says: "It shares out 1 among the words and brings home their average." },
      {
        name: "Where shares come from",
        says: "*it* asks; the better a word matches, the bigger its share.",
      },
      { name: "Two heads", says: "Two questions at once, and each head brings home its own answer." },
      {
        name: "Side by side, then mixed",
        says: "The answers are laid end to end, and one learned table, W_O, makes one result of them.",
      },
      { name: "Real heads", says: "The heads of a real model: some have a job that one can name." },
      { name: "Switch one off", says: "Take a single head away, and see which next words the model loses." },
    ],
    realHeads: (heads: number) => `${heads} heads of a real model: some may have a job that one can name.`,
    testedHeads: (heads: number, named: number, resting: number) =>
      `${heads} heads of a real model. In tests ${named} of them earned a name: ${named - resting} for a job, ${resting} only for resting.`,
    asks: "it asks",
    question: "the same word, two questions",
    asIs: "as is",
    without: (head: string) => `without ${head}`,
  },
  leftOut:
    "In this picture each word has one place, and a place is two numbers; in a real head it is often 64. More numbers give more room, but one head still brings home one average.",
  later:
    "Here *it* may look at words that come later. A model that writes cannot: its pattern is a triangle, called causal.",
};
