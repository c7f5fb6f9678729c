// Colours for a signed number and its digits, with enough contrast to be read (WCAG).
import { css, signedColour, type Colour, type Palette } from "./colour";

const LEAST = 4.6; // WCAG asks 4.5 of small text; colours are rounded

function luminance(colour: Colour): number {
  const [r, g, b] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: Colour, b: Colour): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

/** Back and front colour of a value from −1 to 1; the back gets paler until its digits have enough contrast. */
export function readableColours(colours: Palette, value: number): { back: string; front: string } {
  for (let strength = Math.min(1, Math.abs(value)); ; strength -= 0.02) {
    const back = signedColour(colours, Math.sign(value) * Math.max(0, strength));
    const front = [colours.ink, colours.paper].find((each) => contrast(back, each) >= LEAST);
    if (front || strength <= 0) return { back: css(back), front: css(front ?? colours.ink) };
  }
}
