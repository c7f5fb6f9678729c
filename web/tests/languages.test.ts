import { describe, expect, it } from "vitest";
import { FIGURES, type TermKey } from "../src/glossary/figures";
import { count, fixed, localised, percent, short, signed } from "../src/format";
import { formatted, spoken } from "../src/learn/lesson-numbers.svelte";
import { Problem } from "../src/source/problem";
import { messageOf } from "../src/source/source";
import en from "../src/words/en";
import { printed, served } from "../src/words/served";
import { LANGUAGES, NAMES, speak } from "../src/words/words";

type Leaf = string | ((...given: unknown[]) => string);

/** Every string and function of a catalogue by its path: "tour.oneHead.before". */
function leaves(of: unknown, path = ""): [string, Leaf][] {
  if (typeof of === "string" || typeof of === "function") return [[path, of as Leaf]];
  return Object.entries(of as object).flatMap(([key, value]) => leaves(value, path ? `${path}.${key}` : key));
}

const ENGLISH = new Map(leaves(en));
/** What may differ in number: a language has as many forms of a word as its grammar asks for. */
const free = (path: string) => /^glossary\.terms\.\w+\.forms\.\d+$|^(served|printed)\./.test(path);
const asked = [3, 1].flatMap((first) => [[first, 5, 7, 11, 13, 17]]);
/** What each argument becomes in a sentence, so that one that is left out is seen. */
const given = (leaf: Leaf, numbers: number[]) =>
  typeof leaf === "function" ? Array.from({ length: leaf.length }, (_, at) => numbers[at]) : [];

it("every language has a name, English too", () => {
  expect(Object.keys(NAMES).sort()).toEqual(["en", ...Object.keys(LANGUAGES)].sort());
});

it("what the program says is translated with its names and numbers", async () => {
  await speak(["de-AT"]);
  expect(served("They add up to .9, too little: a head shares out exactly 1.")).toBe(
    "Zusammen ergeben sie 0,9, zu wenig: Ein Kopf verteilt genau 1.",
  );
  expect(served("Previous token")).toBe("Vorheriges Token");
  expect(served("something new")).toBe("something new");
  for (const [english, theirs] of Object.entries((await LANGUAGES.de()).default.served))
    expect([...new Set(theirs.match(/\{\d\}/g) ?? [])].sort(), english).toEqual(
      [...new Set(english.match(/\{\d\}/g) ?? [])].sort(),
    );
  await speak(["fr", "en-GB"]);
  expect(served("Previous token")).toBe("Previous token");
});

it("what a lesson's code prints is translated line by line, with its numbers as Python writes them", async () => {
  await speak(["de"]);
  const lines = "heads   3 × 256 = 768, 2,360,064 parameters\nheads   1 × 16: both values found  16.8 %\nanother line";
  expect(printed(lines)).toBe(
    "Köpfe   3 × 256 = 768, 2,360,064 Parameter\nKöpfe   1 × 16: beide Werte gefunden  16.8 %\nanother line",
  );
  await speak(["en"]);
  expect(printed(lines)).toBe(lines);
});

it("a count is said with its word", () => {
  expect([formatted(1, "KV head|KV heads"), formatted(8, "KV head|KV heads")]).toEqual(["1 KV head", "8 KV heads"]);
});

it("problems and thousands are said in the language of the page", async () => {
  await speak(["de"]);
  expect(
    messageOf(new Problem("InputError", "the text has 20,000 tokens, and this model reads at most 16384; shorten it")),
  ).toBe("der Text hat 20\u202f000 Token, und dieses Modell liest höchstens 16384; kürze ihn");
  expect(messageOf(new Problem("Failed", "nobody knows this sentence"))).toBe("nobody knows this sentence");
  expect(count(8192)).toBe("8\u202f192");
  expect(formatted(8192, ",")).toBe("8\u202f192");
  expect(formatted(1099511.6, ",.1f")).toBe("1\u202f099\u202f511.6");
  expect(served("131,072")).toBe("131\u202f072");
  expect([short(0.69), signed(-1.5), percent(0.446), fixed(-2.25, 1)]).toEqual([",69", "−1,50", "44,6", "−2,3"]);
  expect([localised("z = (.5, 12.25)"), localised("−.3·4"), localised("1.2.3")]).toEqual([
    "z = (0,5; 12,25)",
    "−0,3·4",
    "1.2.3",
  ]);
  expect([spoken(".69", "w"), spoken("5.6", ""), spoken("(.62 .19)", "")]).toEqual(["0,69", "5.6", "(0,62 0,19)"]);
  expect(served("head 5.6: shares")).toBe("Kopf 5.6: Anteile");
  await speak(["en"]);
  expect([count(8192), formatted(8192, ","), served("131,072")]).toEqual(["8,192", "8,192", "131,072"]);
});

describe.each(Object.keys(LANGUAGES))("the page in %s", async (code) => {
  const catalogue = (await LANGUAGES[code]()).default;
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

  it("explains each term in two or three sentences, and labels its figure as English does", () => {
    const forms = Object.values(catalogue.glossary.terms).flatMap((term) => term.forms);
    expect(new Set(forms).size).toBe(forms.length);
    for (const [key, term] of Object.entries(catalogue.glossary.terms)) {
      const sentences = term.says.split(/(?<=[.;:!?])\s+(?=\p{Lu}|\d|\p{Ll})/u);
      expect(sentences.length, key).toBeGreaterThanOrEqual(2);
      expect(term.forms.length, key).toBeGreaterThan(0);
      const marks = FIGURES[key as TermKey](term.labels);
      const said = marks.flatMap((mark) => (mark.kind === "text" ? [mark.text] : [])).join(" ");
      for (const label of term.labels) expect(said, key).toContain(label);
    }
  });
});
