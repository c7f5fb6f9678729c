// The sign of a cell can be told from luminance alone, in the light and in the dark palette.
import { expect, test } from "vitest";
import { palette, type Colour, type Palette } from "../../src/draw/colour";
import { paintStrip } from "../../src/draw/number-strip";
import { dashOf, LEAST_MARKED, paintSignedCell } from "../../src/draw/signed-cell";

const [WIDE, HIGH] = [24, 16];

// the colours of tokens.css that meet on a signed map: light, then dark
const THEMES: Record<string, string>[] = [
  { "--neg": "#94620d", "--zero": "#f5f2eb", "--pos": "#1d377b", "--ink": "#1a1b1f", "--paper": "#fcfbf8" },
  { "--neg": "#dca24a", "--zero": "#1b1e24", "--pos": "#7fa8e8", "--ink": "#eceae4", "--paper": "#131519" },
];

const paletteOf = (theme: number): Palette => palette((token) => THEMES[theme][token] ?? "#888888");

/** A canvas of grey pixels: what is painted is kept as luminance, 0 to 1. */
class GreyCanvas {
  fillStyle = "";
  readonly pixels = new Float64Array(WIDE * HIGH);

  clearRect(): void {}

  fillRect(x: number, y: number, width: number, height: number): void {
    const colour = this.fillStyle.match(/\d+/g)!.map(Number) as unknown as Colour;
    const grey = (0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]) / 255;
    for (let row = Math.round(y); row < Math.round(y + height); row++)
      for (let column = Math.round(x); column < Math.round(x + width); column++)
        this.pixels[row * WIDE + column] = grey;
  }

  at(column: number, row: number): number {
    return this.pixels[row * WIDE + column];
  }
}

function grey(paint: (context: CanvasRenderingContext2D) => void): GreyCanvas {
  const canvas = new GreyCanvas();
  paint(canvas as unknown as CanvasRenderingContext2D);
  return canvas;
}

for (const [theme, name] of ["light", "dark"].entries()) {
  const colours = paletteOf(theme);

  test(`a negative cell of a map has a dash that a positive one has not, without colour (${name})`, () => {
    for (const size of [0.05, 0.3, 0.6, 1])
      for (const value of [size, -size]) {
        const box = { x: 0, y: 0, width: WIDE, height: HIGH };
        const canvas = grey((context) => paintSignedCell(context, box, value, colours));
        const [middle, corner] = [canvas.at(WIDE / 2, HIGH / 2), canvas.at(1, 1)];
        if (value < 0) expect(Math.abs(middle - corner)).toBeGreaterThan(0.15);
        else expect(middle).toBe(corner);
      }
  });

  test(`a strip's bars stand above the middle or below it, without colour (${name})`, () => {
    for (const value of [0.8, -0.8]) {
      const strip = { values: [value], largest: 1 };
      const canvas = grey((context) => paintStrip(context, WIDE, HIGH, strip, colours));
      const background = (0.2126 * colours.zero[0] + 0.7152 * colours.zero[1] + 0.0722 * colours.zero[2]) / 255;
      const far = (row: number) => Math.abs(canvas.at(2, row) - background);
      expect(far(value > 0 ? 2 : HIGH - 2)).toBeGreaterThan(0.15);
      expect(far(value > 0 ? HIGH - 2 : 2)).toBeLessThan(0.01);
    }
  });
}

test("what is nearly zero has no dash, and no dash leaves its cell", () => {
  const box = { x: 5, y: 7, width: 4, height: 4 };
  expect(dashOf(box, -LEAST_MARKED / 2)).toBeNull();
  expect(dashOf(box, Number.NaN)).toBeNull();
  const dash = dashOf(box, -1)!;
  expect(dash.x).toBeGreaterThanOrEqual(box.x);
  expect(dash.x + dash.width).toBeLessThanOrEqual(box.x + box.width);
  expect(dash.height).toBeGreaterThanOrEqual(1);
});
