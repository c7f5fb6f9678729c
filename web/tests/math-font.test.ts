// The signs of the formulas are in the page's own font: any other would come from the reader's machine.
import { expect, it } from "vitest";

const SOURCES = import.meta.glob<string>("../src/**/*.svelte", { query: "?raw", import: "default", eager: true });
const script = import.meta.glob<string>("../scripts/math_font.py", { query: "?raw", import: "default", eager: true });

it("draws every sign of a formula with the font that is shipped", () => {
  const known = /SIGNS = "(.+)"/.exec(Object.values(script)[0])![1];
  const signs = Object.values(SOURCES).flatMap((source) =>
    [...source.matchAll(/<m[on]\b[^>]*>\s*([^<{\s]+)</g)].flatMap(([, text]) => [...text.replace("&gt;", ">")]),
  );
  expect(signs.length).toBeGreaterThan(20);
  expect(signs.filter((sign) => !known.includes(sign))).toEqual([]);
});
