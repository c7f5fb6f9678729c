// A vector as a strip of signed colours, positive numbers in the upper half and negative ones in the lower, so that the
// sign can be read without colour; with more numbers than pixels, the largest of each pixel.
import { css, signedColour, type Palette } from "./colour";

export interface Strip {
  values: ArrayLike<number>;
  largest: number; // what counts as full colour
  groups?: number; // a hairline of paper between equal groups
}

export function strongest(values: ArrayLike<number>, most: number): number[] {
  const cells = Math.min(values.length, Math.max(1, most));
  return Array.from({ length: cells }, (_, cell) => {
    let best = 0;
    for (let k = Math.floor((cell * values.length) / cells); k < Math.floor(((cell + 1) * values.length) / cells); k++)
      if (Math.abs(values[k]) > Math.abs(best)) best = values[k];
    return best;
  });
}

export function paintStrip(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  strip: Strip,
  colours: Palette,
): void {
  const groups = strip.groups ?? 1;
  const gap = groups > 1 ? 2 : 0;
  const perGroup = strip.values.length / groups;
  const groupWidth = (width - (groups - 1) * gap) / groups;
  context.clearRect(0, 0, width, height);
  for (let group = 0; group < groups; group++) {
    const own = Array.prototype.slice.call(strip.values, group * perGroup, (group + 1) * perGroup) as number[];
    const cells = strongest(own, Math.floor(groupWidth / 2));
    const start = group * (groupWidth + gap);
    cells.forEach((value, cell) => {
      const x = Math.round(start + (cell * groupWidth) / cells.length);
      const wide = Math.round(start + ((cell + 1) * groupWidth) / cells.length) - x;
      const half = Math.round(height / 2);
      context.fillStyle = css(colours.zero);
      context.fillRect(x, 0, wide, height);
      context.fillStyle = css(signedColour(colours, strip.largest > 0 ? value / strip.largest : 0));
      if (value !== 0) context.fillRect(x, value > 0 ? 0 : half, wide, value > 0 ? half : height - half);
    });
  }
}
