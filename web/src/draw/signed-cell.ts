// One cell of a signed map: colour by sign and size, and a dash across negative ones, so that the sign can be read
// without colour (in greyscale, on paper, or by eyes that do not tell these two hues apart).
import { css, signedColour, type Colour, type Palette } from "./colour";
import { contrast } from "./contrast";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const LEAST_MARKED = 0.02; // of the largest number: what is smaller looks like zero

/** The dash of a negative cell: half as wide as it, in its middle; null for other cells. */
export function dashOf(box: Box, value: number): Box | null {
  if (!(value <= -LEAST_MARKED)) return null;
  const [width, height] = [box.width / 2, Math.max(1, box.height / 8)];
  return { x: box.x + (box.width - width) / 2, y: box.y + (box.height - height) / 2, width, height };
}

/** The colour of a dash on a cell of this value: whichever of ink and paper stands out more. */
export function dashColour(colours: Palette, value: number): Colour {
  const back = signedColour(colours, value);
  return contrast(back, colours.ink) >= contrast(back, colours.paper) ? colours.ink : colours.paper;
}

/** Paint a value from −1 to 1 into a box of device pixels. */
export function paintSignedCell(context: CanvasRenderingContext2D, box: Box, value: number, colours: Palette): void {
  context.fillStyle = css(signedColour(colours, value));
  context.fillRect(box.x, box.y, box.width, box.height);
  const dash = dashOf(box, value);
  if (!dash) return;
  context.fillStyle = css(dashColour(colours, value));
  context.fillRect(dash.x, dash.y, dash.width, dash.height);
}
