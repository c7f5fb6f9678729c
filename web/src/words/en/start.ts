// Start: one sentence, one word, one head, one question.
export default {
  title: "What does *it* mean here?",
  lead: "A **head** is a small part of a language model: for each word it divides its attention among the words of a text, and returns an average of what they hand over.",
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
    onTheWay: (word: string) => `Go on. As **${word}** gets more, the others get less: the shares always add up to 1.`,
    road: "Then the road was tired. Try another word.",
    because: "**because** links the two halves of the sentence, but *it* does not refer to it. Try another word.",
    tiredFirst: "That tells us how *it* feels. But what does *it* refer to?",
    who: "Yes, the animal. Now a second question: what do we learn about *it*? Keep **animal**, and pull **tired** down as well.",
    whoPhone:
      "Yes, the animal. Now a second question: what do we learn about *it*? Keep **animal**, and drag **tired** further as well.",
    blend:
      "A bit of each, and *it* lands near **road** again, where it started. Both words went in, but the result no longer tells you which.",
    how: "Now *it* tells us how, but no longer who. One head gives one point, and there are two questions.",
    whoAgain: "Now *it* tells us who, but no longer how. One head gives one point, and there are two questions.",
    between: "Watch where *it* goes. However you set the shares, one head gives one average.",
    second: "Head 1 stays with **animal**. Let head 2 find what we learn about *it*: pull *it*₂ down under **tired**.",
    secondPhone:
      "Head 1 stays with **animal**. Let head 2 find what we learn about *it*: drag *it*₂ next to **tired**.",
    each: "Give each head one question: one looks for what *it* refers to, the other for what we learn about *it*.",
    both: "Two heads, two points: each question has its own answer. Several heads side by side are called **multi-head** attention.",
  },
  pull: "pull",
  sharesOut: "divides 1",
  sharesOutTwo: "1 for each",
  plane: "Where “it” ends up: every word pulls on it, as strongly as its share",
  planePhone: "Where “it” ends up",
  who: "What does *it* refer to?",
  how: "What do we learn about *it*?",
  whoAnswer: "the animal",
  howAnswer: "tired",
  notKnown: "not known",
  again: "Start again",
  second: "Give it a second head",
  begin: "Begin the tour",
  goOn: (stop: number) => `Go on with stop ${stop}`,
  tour: {
    title: "The tour",
    says: "One figure in seven stops, about ten minutes; you can leave at any point.",
    lesson: "Or read it as a lesson.",
  },
  leftOut:
    "In this picture each word is one point, given by two numbers; in a real head there are often 64. More numbers give more room, but one head still returns one average.",
  later:
    "Here *it* may look at words that come later. A model that writes cannot do this: its pattern is a triangle, called causal.",
};
