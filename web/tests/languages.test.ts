import { describe, expect, it } from "vitest";
import { count, fixed, percent, short, signed } from "../src/format";
import { formatted } from "../src/learn/lesson-numbers.svelte";
import en from "../src/words/en";
import { LANGUAGES, speak, type Words } from "../src/words/words";

type Leaf = string | ((...given: unknown[]) => string);

/** Every string and function of a catalogue by its path: "tour.oneHead.before". */
function leaves(of: unknown, path = ""): [string, Leaf][] {
  if (typeof of === "string" || typeof of === "function") return [[path, of as Leaf]];
  return Object.entries(of as object).flatMap(([key, value]) => leaves(value, path ? `${path}.${key}` : key));
}

const ENGLISH = new Map(leaves(en));
/** What a template leaves open. */
const places = (template: string) => template.match(/\{\w+\}/g)?.sort();
/** What may differ in number: a language has as many forms of a word as its grammar asks for. */
const free = (path: string) => /^glossary\.terms\.\w+\.forms\.\d+$/.test(path);
const asked = [3, 1].flatMap((first) => [[first, 5, 7, 11, 13, 17]]);
/** What each argument becomes in a sentence, so that one that is left out is seen. */
const given = (leaf: Leaf, numbers: number[]) =>
  typeof leaf === "function" ? Array.from({ length: leaf.length }, (_, at) => numbers[at]) : [];

it("a count is said with its word", () => {
  expect([formatted(1, "KV head|KV heads"), formatted(8, "KV head|KV heads")]).toEqual(["1 KV head", "8 KV heads"]);
});

/** English with French numbers: what a language that comes back may change. */
const french = () =>
  Promise.resolve({ default: { ...en, ui: { ...en.ui, decimal: ",", thousands: "\u202f" } } as Words });

it("the first language that there is is spoken, with its numbers, and English where there is none", async () => {
  LANGUAGES.fr = french;
  try {
    expect(await speak(["it", "fr-CH", "en"])).toBe("fr");
    expect([count(8192), formatted(8192, ",")]).toEqual(["8\u202f192", "8\u202f192"]);
    expect([short(0.69), signed(-1.5), percent(0.446), fixed(-2.25, 1)]).toEqual([",69", "−1,50", "44,6", "−2,3"]);
    expect(await speak(["en-GB", "fr"])).toBe("en");
  } finally {
    delete LANGUAGES.fr;
  }
  expect(await speak(["fr", "it"])).toBe("en");
  expect([count(8192), short(0.69)]).toEqual(["8,192", ".69"]);
});

describe.each(["en", ...Object.keys(LANGUAGES)])("the page in %s", async (code) => {
  const catalogue = code === "en" ? en : (await LANGUAGES[code]()).default;
  const theirs = new Map(leaves(catalogue));

  it("has the keys of the English page and no others", () => {
    const keys = (of: Map<string, Leaf>) => [...of.keys()].filter((path) => !free(path)).sort();
    expect(keys(theirs)).toEqual(keys(ENGLISH));
  });

  it("has no empty string, and a sentence wherever English has one", () => {
    for (const [path, leaf] of theirs) {
      if (typeof leaf === "string" && ENGLISH.get(path) !== "") expect(leaf.replaceAll(" ", ""), path).not.toBe("");
    }
  });

  it("says every number and name that goes into a sentence", () => {
    for (const [path, leaf] of theirs) {
      const english = ENGLISH.get(path);
      if (typeof leaf === "string") expect(places(leaf), path).toEqual(places(String(english)));
      if (typeof leaf !== "function" || typeof english !== "function") continue;
      expect(leaf.length, path).toBe(english.length);
      for (const numbers of asked) {
        const [said, meant] = [leaf, english].map((each) => String(each(...given(english, numbers))));
        for (const number of numbers.slice(0, english.length)) {
          if (new RegExp(`(?<!\\d)${number}(?!\\d)`).test(meant)) expect(said, path).toContain(String(number));
        }
      }
    }
  });

  it("keeps the marks of emphasis in pairs", () => {
    for (const [path, leaf] of theirs)
      if (typeof leaf === "string") expect((leaf.match(/\*\*/g) ?? []).length % 2, path).toBe(0);
  });

  it("asks on Start about words of its sentence, in their order", () => {
    const { asked, reader, sentence } = catalogue.start;
    const bare = sentence.split(" ").map((word) => word.replace(/[.,]$/, ""));
    const at = [...asked, reader].map((word) => bare.indexOf(word));
    expect(Math.min(...at)).toBeGreaterThanOrEqual(0);
    expect(at.slice(0, 4)).toEqual([...at.slice(0, 4)].sort((a, b) => a - b));
  });

  it("explains each term in two or three sentences", () => {
    const forms = Object.values(catalogue.glossary.terms).flatMap((term) => term.forms);
    expect(new Set(forms).size).toBe(forms.length);
    for (const [key, term] of Object.entries(catalogue.glossary.terms)) {
      const sentences = term.says.split(/(?<=[.;:!?])\s+(?=\p{Lu}|\d|\p{Ll})/u);
      expect(sentences.length, key).toBeGreaterThanOrEqual(2);
      expect(term.forms.length, key).toBeGreaterThan(0);
    }
  });
});
