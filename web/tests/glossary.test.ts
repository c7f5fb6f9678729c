import { describe, expect, it } from "vitest";
import { findTerms, termsIn, type TermKey } from "../src/glossary/find-terms";
import { words } from "../src/words/words";

const TERMS = Object.entries(words.glossary.terms);

describe("the glossary", () => {
  it("explains each term in two or three sentences", () => {
    for (const [key, term] of TERMS) {
      const sentences = term.says.split(/(?<=[.;:!?])\s+(?=[A-Z0-9])/);
      expect(sentences.length, key).toBeGreaterThanOrEqual(2);
      expect(sentences.length, key).toBeLessThanOrEqual(3);
    }
  });

  it("has no form that stands for two terms", () => {
    const forms = TERMS.flatMap(([, term]) => term.forms.map((form) => form.toLowerCase()));
    expect(new Set(forms).size).toBe(forms.length);
  });
});

describe("the glossary's words in a text", () => {
  it("are found at their first mention, the longest first", () => {
    expect(findTerms("Logit attribution splits a logit; logits are scores.")).toEqual([
      { text: "Logit attribution", term: "attribution" },
      { text: " splits a " },
      { text: "logit", term: "logit" },
      { text: "; logits are scores." },
    ]);
  });

  it("are whole words, and names keep their capitals", () => {
    expect(termsIn("keyboard, monkeys, tokenize, kl, W_OX")).toEqual([]);
    expect(termsIn("KL between queries and W_O")).toEqual(["kl", "query", "outputMatrix"]);
  });

  it("are not marked again where they are known", () => {
    expect(findTerms("a token", new Set<TermKey>(["token"]))).toEqual([{ text: "a token" }]);
  });
});
