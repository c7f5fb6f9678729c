// Example texts, each chosen for one phenomenon: induction, indirect objects, pronouns, lists, quotations, code.

export interface Example {
  name: string;
  text: string;
  lookFor: string;
  by: string; // the question whose best head is selected first
  at?: string; // the token that is selected
  reads?: string; // the head that attends most from there to this token is selected instead
}

export const EXAMPLES: Example[] = [
  {
    name: "Repetition",
    text: "My white horse drank at the river. My white horse drank at the",
    lookFor: "heads that find what came next before.",
    by: "induction",
  },
  {
    name: "Indirect object",
    text: "When Mary and John went to the store, John gave a drink to",
    lookFor: "heads that fetch the other name.",
    by: "duplicate",
    reads: "Mary",
  },
  {
    name: "Pronoun",
    text: "The horse crossed the road because it was tired.",
    lookFor: "heads that link “it” to its noun.",
    by: "distance",
    at: "it",
    reads: "horse",
  },
  {
    name: "List",
    text: "In the basket she found bread, butter, wine, milk,",
    lookFor: "heads that step from comma to comma.",
    by: "duplicate",
  },
  {
    name: "Quotation",
    text: '"Will you come?" asked the captain. "Not now," said the boy. "Then when?" asked the',
    lookFor: "heads that remember who spoke.",
    by: "induction",
  },
  {
    name: "Code",
    text:
      "def area(width, height):\n    return width * height\n\n" +
      "def volume(width, height, depth):\n    return width * height *",
    lookFor: "heads that copy names from the line above.",
    by: "induction",
  },
  {
    name: "Far back",
    text:
      "Old Mr. Whitlow kept the ferry at the bend. Every morning he oiled the chain, swept the deck " +
      "and counted the planks, and every evening he tied the boat, lit the lamp and counted them again. " +
      "Nobody had ever seen him cross. One winter the river froze, and there was no work for old Mr.",
    lookFor: "heads that read across the whole passage.",
    by: "induction",
  },
];
