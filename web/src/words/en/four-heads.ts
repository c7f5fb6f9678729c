// Four heads.
export default {
  nothing: "Nothing found for this head in this sentence: every word rests on the first.",
  paint: "Paint what it should find",
  twice: (word: string) =>
    `Without places the copies of “${word}” look the same to every head: rows that have to tell them apart are missed.`,
  lowered: (word: string) => `The sentence now begins with a small letter, so that “${word}” stands in it twice.`,
  allDiffer:
    "All words of this sentence differ, so a head that knows the word knows the place, and nothing changes without places.",
  takeRepeated: "Take a sentence with a repeated word",
  /** a sentence in which the places matter: two copies of a word, to be told apart */
  repeated: "the tired horse crossed the narrow road because it was late",
};
