import { describe, expect, it } from "vitest";
import { formatBytes, formatCount, formatFlops, formatLength, nearestLength, runs } from "../src/cards/units";
import { clear, edgeOf, headNames, ranked } from "../src/census/ranking";
import { frameAt, nearest, axisPosition, spreadLabels, formatTokens, expectedCells } from "../src/film/timeline";
import { blocks, highlightPython, spans } from "../src/learn/markdown";
import { TRY_IT_LINKS } from "../src/learn/try-it-links";
import { addressOf, fieldsAt, isAt, whole } from "../src/address-fields";

describe("a page's address", () => {
  it("carries what is set, and reads it back", () => {
    const address = addressOf("cards", { card: "a b&c", heads: null, kv: 8, dtype: "" });
    expect(address).toBe("#cards?v=1&card=a+b%26c&kv=8");
    expect(fieldsAt(address).get("card")).toBe("a b&c");
    expect(isAt("cards", address)).toBe(true);
    expect(isAt("card", address)).toBe(false);
  });

  it("takes whole numbers within bounds only", () => {
    expect(whole("12", 1, 20)).toBe(12);
    for (const text of [null, "", "-1", "1.5", "1e3", "21", "9".repeat(20)]) expect(whole(text, 1, 20)).toBeNull();
  });
});

describe("the film", () => {
  it("has an axis that begins at nothing and ends at the last token", () => {
    expect(axisPosition(0, 9e8)).toBe(0);
    expect(axisPosition(9e8, 9e8)).toBe(1);
    expect(axisPosition(0, 0)).toBe(0);
    expect(axisPosition(1e7, 9e8)).toBeGreaterThan(axisPosition(5e6, 9e8));
    expect(nearest([0, 0.2, 0.7, 1], 0.5)).toBe(2);
  });

  it("shows the last frame that was kept", () => {
    expect(frameAt([0, 204, 340], 0)).toBe(0);
    expect(frameAt([0, 204, 340], 339)).toBe(1);
    expect(frameAt([0, 204, 340], 9999)).toBe(2);
  });

  it("knows where an induction head would look", () => {
    expect(expectedCells("induction", ["<s>", "a", "b", "a"])).toEqual([[3, 2]]);
    expect(expectedCells("duplicate", ["<s>", "a", "b", "a"])).toEqual([[3, 1]]);
    expect(expectedCells("previous", ["x", "y", "z"])).toEqual([
      [1, 0],
      [2, 1],
    ]);
  });

  it("keeps labels apart and inside", () => {
    const found = spreadLabels([50, 51, 52, 98], 13, 8, 100);
    const sorted = [...found].sort((a, b) => a - b);
    sorted.slice(1).forEach((y, k) => expect(y - sorted[k]).toBeGreaterThanOrEqual(13));
    expect(Math.max(...found)).toBeLessThanOrEqual(100);
  });

  it("says tokens as people do", () => {
    expect([0, 65_536, 1e6, 7_143_424, 26_869_760].map(formatTokens)).toEqual(["0", "66 k", "1 M", "7.1 M", "27 M"]);
  });
});

describe("a card", () => {
  it("says sizes as the command line does", () => {
    expect([512, 131_072, 17_179_869_184, 1.5 * 2 ** 20].map(formatBytes)).toEqual([
      "512 B",
      "128 KiB",
      "16 GiB",
      "1.5 MiB",
    ]);
    expect([124_439_808, 8_030_261_248, null].map(formatCount)).toEqual(["124 M", "8.03 B", "not known"]);
    expect([1024, 131_072, 2 ** 20, 1500].map(formatLength)).toEqual(["1 k", "128 k", "1 M", "1,500"]);
    expect(formatFlops(84e9)).toBe("84 GFLOP");
  });

  it("finds the nearest counted length and runs of layers", () => {
    expect(nearestLength([1024, 2048, 4096], 3000)).toBe(2);
    expect(runs([null, 512, 512, 0])).toEqual([
      { window: null, from: 0, count: 1 },
      { window: 512, from: 1, count: 2 },
      { window: 0, from: 3, count: 1 },
    ]);
  });
});

describe("a lesson's Markdown", () => {
  it("is a tree of text, so that no tag can come of it", () => {
    expect(spans("a **b** *c* `d` W_O <script>")).toEqual([
      { kind: "text", text: "a " },
      { kind: "strong", text: "b" },
      { kind: "text", text: " " },
      { kind: "em", text: "c" },
      { kind: "text", text: " " },
      { kind: "code", text: "d" },
      { kind: "text", text: " W" },
      { kind: "sub", text: "O" },
      { kind: "text", text: " <script>" },
    ]);
  });

  it("leaves a product and a lone star alone", () => {
    expect(spans("2 * 3 * 4")).toEqual([{ kind: "text", text: "2 * 3 * 4" }]);
  });

  it("has paragraphs and lists", () => {
    const found = blocks("one\ntwo\n\n- a\n- b\n  c\n");
    expect(found.map((block) => block.kind)).toEqual(["paragraph", "list"]);
    expect(found[1].kind === "list" && found[1].items.map((item) => item[0].text)).toEqual(["a", "b c"]);
  });

  it("tints code without losing a character", () => {
    const code = 'for x in y:  # a "comment"\n    print(f"{x}")\n';
    const parts = highlightPython(code);
    expect(parts.map((part) => part.text).join("")).toBe(code);
    expect(parts.filter((part) => part.ink === "comment").map((part) => part.text)).toEqual(['# a "comment"']);
  });

  it("leads from every lesson to a page", () => {
    expect(Object.keys(TRY_IT_LINKS).map(Number)).toEqual(Array.from({ length: 20 }, (_, number) => number));
    for (const attempts of Object.values(TRY_IT_LINKS))
      for (const { href } of attempts) expect(href).toMatch(/^#[a-z-]+(\?.*)?$/);
  });
});

describe("the census", () => {
  it("ranks heads, with those without an answer last", () => {
    expect(ranked(["a", "b", "c", "d"], [0.1, NaN, 0.3, 0.1], "down").map((row) => row.head)).toEqual([
      "c",
      "a",
      "d",
      "b",
    ]);
    expect(ranked(["a", "b", "c"], [-0.4, 0.3, 0.1], "down", Math.abs).map((row) => row.head)).toEqual(["a", "b", "c"]);
    expect(ranked(["a", "b"], [0.2, 0.1], "up").map((row) => row.head)).toEqual(["b", "a"]);
  });

  it("chooses an axis that fits", () => {
    expect(edgeOf([0.1, 0.6], "share")).toBe(1);
    expect(edgeOf([0.01, NaN], "share")).toBe(0.05);
    expect(edgeOf([3, 7], "nats")).toBe(7);
  });

  it("calls a head clear of its null only where the intervals do not touch", () => {
    expect(clear(0.2, 0.1)).toBe(true);
    expect(clear(0.1, 0.1)).toBe(false);
    expect(clear(NaN, 0.1)).toBe(false);
  });

  it("names heads by their site", () => {
    const sites = [
      { name: "0", n_heads: 2 },
      { name: "decoder.1.cross", n_heads: 1 },
    ];
    expect(headNames(sites)).toEqual(["0.0", "0.1", "decoder.1.cross.0"]);
  });
});
