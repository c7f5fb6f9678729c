// Geometry of the diagram exercise: where the boxes stand, and the arrows between them.

export interface Spot {
  x: number;
  y: number;
}

export const BOX = { width: 104, height: 34 };

/** Scattered, so that the order has to come from memory. Fractions of the field. */
const SCATTERED: Spot[] = [
  { x: 0.5, y: 0.84 },
  { x: 0.84, y: 0.5 },
  { x: 0.16, y: 0.16 },
  { x: 0.84, y: 0.16 },
  { x: 0.16, y: 0.84 },
  { x: 0.5, y: 0.16 },
];
const LYING: Spot[] = [
  { x: 0.08, y: 0.5 },
  { x: 0.29, y: 0.22 },
  { x: 0.29, y: 0.78 },
  { x: 0.5, y: 0.5 },
  { x: 0.71, y: 0.5 },
  { x: 0.92, y: 0.5 },
];
const STANDING: Spot[] = [
  { x: 0.5, y: 0.08 },
  { x: 0.22, y: 0.29 },
  { x: 0.78, y: 0.29 },
  { x: 0.5, y: 0.5 },
  { x: 0.5, y: 0.71 },
  { x: 0.5, y: 0.92 },
];

/** The middle of each box. */
export function boxCentres(width: number, height: number, inOrder: boolean): Spot[] {
  const narrow = width < 620;
  const inset = (value: number, size: number, box: number) =>
    Math.max(box / 2 + 2, Math.min(size - box / 2 - 2, value * size));
  return (inOrder ? (narrow ? STANDING : LYING) : SCATTERED).map(({ x, y }) => ({
    x: inset(x, width, BOX.width),
    y: inset(y, height, BOX.height),
  }));
}

/** From the edge of one box to the edge of another, with room for the point. */
export function arrowBetween(from: Spot, to: Spot): { x1: number; y1: number; x2: number; y2: number } {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const out = Math.min(BOX.width / 2 / Math.max(1e-6, Math.abs(dx)), BOX.height / 2 / Math.max(1e-6, Math.abs(dy)));
  const end = 4 / Math.max(1, Math.hypot(dx, dy));
  return { x1: from.x + dx * out, y1: from.y + dy * out, x2: to.x - dx * (out + end), y2: to.y - dy * (out + end) };
}

/** The two strokes of an arrow's point. */
export function arrowHead({ x1, y1, x2, y2 }: { x1: number; y1: number; x2: number; y2: number }, size = 7): string {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const corner = (turn: number) =>
    `${(x2 - size * Math.cos(angle + turn)).toFixed(1)} ${(y2 - size * Math.sin(angle + turn)).toFixed(1)}`;
  return `M${corner(0.45)}L${x2.toFixed(1)} ${y2.toFixed(1)}L${corner(-0.45)}`;
}

export type Pair = [string, string];

export function toggled(arrows: Pair[], from: string, to: string): Pair[] {
  const there = arrows.some((arrow) => arrow[0] === from && arrow[1] === to);
  return there ? arrows.filter((arrow) => !(arrow[0] === from && arrow[1] === to)) : [...arrows, [from, to]];
}
