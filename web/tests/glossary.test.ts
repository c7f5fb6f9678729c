import { describe, expect, it } from "vitest";
import { FIGURES, HEIGHT, WIDTH, type TermKey } from "../src/glossary/figures";
import { findTerms, termsIn } from "../src/glossary/find-terms";
import { words } from "../src/words/words";

const TERMS = Object.entries(words.glossary.terms);

describe("the glossary", () => {
  it("explains each term in two or three sentences, with a figure and its text alternative", () => {
    for (const [key, term] of TERMS) {
      const sentences = term.says.split(/(?<=[.;:!?])\s+(?=[A-Z0-9])/);
      expect(sentences.length, key).toBeGreaterThanOrEqual(2);
      expect(sentences.length, key).toBeLessThanOrEqual(3);
      expect(term.figure, key).not.toBe("");
      expect(FIGURES[key as TermKey](term.labels).length, key).toBeGreaterThan(2);
    }
  });

  it("keeps every figure inside its box, and shows every label", () => {
    for (const [key, term] of TERMS) {
      const marks = FIGURES[key as TermKey](term.labels);
      const said = marks.flatMap((mark) => (mark.kind === "text" ? [mark.text] : [])).join(" ");
      for (const label of term.labels) expect(said, key).toContain(label);
      for (const mark of marks) {
        if (mark.kind === "path") continue;
        const x =
          mark.kind === "line" ? [mark.x1, mark.x2] : mark.kind === "rect" ? [mark.x, mark.x + mark.width] : [mark.x];
        const y =
          mark.kind === "line" ? [mark.y1, mark.y2] : mark.kind === "rect" ? [mark.y, mark.y + mark.height] : [mark.y];
        expect(Math.min(...x), key).toBeGreaterThanOrEqual(0);
        expect(Math.max(...x), key).toBeLessThanOrEqual(WIDTH);
        expect(Math.min(...y), key).toBeGreaterThanOrEqual(0);
        expect(Math.max(...y), key).toBeLessThanOrEqual(HEIGHT);
      }
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
