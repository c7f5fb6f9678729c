// The microscope's examples: what each is called, what to look for, and what is said where the model does not show it.
export default {
  all: {
    repetition: { name: "Repetition", lookFor: "Look for heads that find what came next before." },
    indirectObject: { name: "Indirect object", lookFor: "Look for heads that fetch the other name." },
    pronoun: { name: "Pronoun", lookFor: "Look for heads that link “it” to its noun." },
    list: { name: "List", lookFor: "Look for heads that step from comma to comma." },
    quotation: { name: "Quotation", lookFor: "Look for heads that remember who spoke." },
    code: { name: "Code", lookFor: "Look for heads that copy names from the line above." },
    farBack: { name: "Far back", lookFor: "Look for heads that read across the whole passage." },
  },
  label: "Example",
  own: "your own text",
  expectsOther: (token: string, wanted: string) =>
    `This model does not show what this example is about: it expects “${token}”, not “${wanted}”.`,
  readsLittle: "This model does not show what this example is about: none of its heads reads so.",
  searching: "Looking for an example that it does show.",
  offer: (name: string) => `It does show “${name}”`,
  none: "None of the other examples shows what it is about either.",
};
