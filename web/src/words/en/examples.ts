// The microscope's examples: what each is called, what to look for, and what is said if the model does not show it.
export default {
  all: {
    repetition: {
      name: "Repetition",
      lookFor: "Look for heads that find an earlier copy of the phrase and attend to the word that followed it.",
    },
    indirectObject: { name: "Indirect object", lookFor: "Look for heads that attend to the other name." },
    pronoun: { name: "Pronoun", lookFor: "Look for heads that link “it” to its noun." },
    list: { name: "List", lookFor: "Look for heads that step from comma to comma." },
    quotation: { name: "Quotation", lookFor: "Look for heads that attend to the speaker." },
    code: { name: "Code", lookFor: "Look for heads that copy names from the line above." },
    farBack: { name: "Far back", lookFor: "Look for heads that attend across the whole passage." },
  },
  label: "Example",
  own: "your own text",
  expectsOther: (token: string, wanted: string) =>
    `This example does not work with this model: it expects “${token}”, not “${wanted}”. It works with the built-in one.`,
  readsLittle:
    "This example does not work with this model: none of its heads attends this way. It works with the built-in one.",
  searching: "Looking for an example that works with this model.",
  offer: (name: string) => `“${name}” works with this model`,
  recorded: "See a sentence of this kind on a real model",
  none: "None of the other examples works with this model either.",
};
