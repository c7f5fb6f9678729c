import { describe, expect, it } from "vitest";
import { palette, type Colour } from "../src/draw/colour";
import { contrast, readable } from "../src/draw/readable";
import tokens from "../src/styles/tokens.css?raw";

const [light, dark] = tokens.split(':root[data-theme="dark"]');
const token = (css: string) => (name: string) => new RegExp(`${name}: (#[0-9a-f]+)`).exec(css)?.[1] ?? "#000000";
const numbers = (css: string) => css.match(/\d+/g)!.map(Number) as unknown as Colour;

describe("digits on a signed colour", () => {
  it("measures black on white as 21", () => {
    expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21);
  });
  it("can be read at every value, in light and in dark", () => {
    for (const colours of [palette(token(light)), palette(token(dark))])
      for (let value = -1; value <= 1; value += 0.01) {
        const { back, front } = readable(colours, value);
        expect(contrast(numbers(back), numbers(front)), `${value}`).toBeGreaterThanOrEqual(4.5);
      }
  });
});
