import { expect, test } from "vitest";
import { list, percent, sentence, short, signed, spaced, unspaced, visible } from "../src/format";

test("weights have no leading zero and a real minus", () => {
  expect([0.691, 0, 1, -0.25, -0.001].map((value) => short(value))).toEqual([".69", ".00", "1.00", "−.25", ".00"]);
  expect(short(0.7583, 3)).toBe(".758");
  expect(short(NaN)).toBe("–");
});

test("differences carry their sign, and zero has none", () => {
  expect([1.541, -0.084, 0.001].map((value) => signed(value))).toEqual(["+1.54", "−0.08", "0.00"]);
});

test("per cent with three figures", () => {
  expect([0.923, 0.0216, 0.0995, 0.99999, 0.00001, 0].map(percent)).toEqual([
    "92.3",
    "2.16",
    "9.95",
    "100",
    "<.01",
    "0.00",
  ]);
});

test("a token can be seen", () => {
  expect([" Mary", "\n", " ", "", "▁it", "a b", "\n\n"].map(visible)).toEqual([
    "Mary",
    "↵",
    "␣",
    "␣",
    "it",
    "a b",
    "↵↵",
  ]);
});

test("a control character is a symbol, and turns no letters around", () => {
  expect(["\u202elive", "a\u2066b", "\x1b[31m", "\x7f", "שלום"].map(visible)).toEqual([
    "�live",
    "a�b",
    "␛[31m",
    "�",
    "שלום",
  ]);
});

test("a token in a field shows its spaces, and is read back as it was", () => {
  const tokens = [" road", "road", "  ", "\n\n", "a b", ""];
  expect(tokens.map(spaced)).toEqual(["␣road", "road", "␣␣", "↵↵", "a b", ""]);
  expect(tokens.map((token) => unspaced(spaced(token)))).toEqual(tokens);
  expect(spaced("\u202elive\x1b")).toBe("‹202e›live‹1b›");
  expect(unspaced("‹202e›live‹1b›")).toBe("\u202elive\x1b");
});

test("a message becomes a sentence", () => {
  expect(sentence("this text is empty; type a sentence")).toBe("This text is empty; type a sentence.");
  expect(sentence("The program has stopped.")).toBe("The program has stopped.");
});

test("long lists are cut", () => {
  expect(list(["a", "b"], 2)).toBe("a, b");
  expect(list(["a", "b", "c", "d"], 2)).toBe("a, b and 2 more");
});
