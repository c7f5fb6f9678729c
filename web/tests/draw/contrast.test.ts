import { describe, expect, it } from "vitest";
import { palette, type Colour } from "../../src/draw/colour";
import { contrast, readableColours } from "../../src/draw/contrast";

// the colours of tokens.css that meet on a strip of numbers
const LIGHT: Record<string, string> = {
  "--paper": "#fcfbf8",
  "--ink": "#1a1b1f",
  "--neg": "#94620d",
  "--zero": "#f5f2eb",
  "--pos": "#1d377b",
};
const DARK: Record<string, string> = {
  "--paper": "#131519",
  "--ink": "#eceae4",
  "--neg": "#dca24a",
  "--zero": "#1b1e24",
  "--pos": "#7fa8e8",
};
const numbers = (css: string) => css.match(/\d+/g)!.map(Number) as unknown as Colour;

describe("digits on a signed colour", () => {
  it("measures black on white as 21", () => {
    expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21);
  });
  it("can be read at every value, in light and in dark", () => {
    for (const theme of [LIGHT, DARK])
      for (let value = -1; value <= 1; value += 0.01) {
        const { back, front } = readableColours(
          palette((token) => theme[token] ?? "#000000"),
          value,
        );
        expect(contrast(numbers(back), numbers(front)), `${value}`).toBeGreaterThanOrEqual(4.5);
      }
  });
});
