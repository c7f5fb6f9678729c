// Colours of weights and signed numbers, from the palette of the theme.

export type Colour = readonly [number, number, number];

export interface Palette {
  ramp: Colour[]; // nine stops, entered by the square root of the weight
  neg: Colour;
  zero: Colour;
  pos: Colour;
  ink: Colour;
  ink2: Colour;
  ink3: Colour;
  quiet: Colour;
  h1: Colour; // the head that is followed
  h2: Colour; // the head beside it
  line: Colour;
  paper: Colour;
  accent: Colour;
}

export function parse(hex: string): Colour {
  const full = hex.length === 4 ? hex.replace(/[^#]/g, "$&$&") : hex;
  return [1, 3, 5].map((at) => parseInt(full.slice(at, at + 2), 16)) as unknown as Colour;
}

export function palette(value: (token: string) => string): Palette {
  const colour = (token: string) => parse(value(token).trim());
  return {
    ramp: Array.from({ length: 9 }, (_, stop) => colour(`--w${stop}`)),
    neg: colour("--neg"),
    zero: colour("--zero"),
    pos: colour("--pos"),
    ink: colour("--ink"),
    ink2: colour("--ink-2"),
    ink3: colour("--ink-3"),
    quiet: colour("--quiet"),
    h1: colour("--h1"),
    h2: colour("--h2"),
    line: colour("--line"),
    paper: colour("--paper"),
    accent: colour("--accent"),
  };
}

export function blend(from: Colour, to: Colour, share: number): Colour {
  return [0, 1, 2].map((k) => from[k] + (to[k] - from[k]) * share) as unknown as Colour;
}

/** The ramp at t = √weight, 0 to 1. */
export function rampAt(colours: Palette, root: number): Colour {
  const place = Math.max(0, Math.min(1, root)) * 8;
  const stop = Math.min(7, Math.floor(place));
  return blend(colours.ramp[stop], colours.ramp[stop + 1], place - stop);
}

export function weightColour(colours: Palette, weight: number): Colour {
  return rampAt(colours, Math.sqrt(Math.max(0, weight)));
}

export function signedColour(colours: Palette, value: number): Colour {
  return blend(colours.zero, value < 0 ? colours.neg : colours.pos, Math.min(1, Math.abs(value)));
}

/** The colour in which a number is readable on top of a weight's colour. */
export function inkOn(colours: Palette, weight: number): Colour {
  return Math.sqrt(weight) > 0.52 ? colours.paper : colours.ink;
}

export function css(colour: Colour): string {
  return `rgb(${colour.map(Math.round).join(",")})`;
}

/** One 32-bit pixel, in the byte order of ImageData. */
export function pixel(colour: Colour): number {
  return ((255 << 24) | (Math.round(colour[2]) << 16) | (Math.round(colour[1]) << 8) | Math.round(colour[0])) >>> 0;
}

/** 256 pixels for the bytes of a thumbnail, which hold 255·√weight; brightness fades them into the paper. */
export function rampPixels(colours: Palette, brightness = 1): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, byte) =>
    pixel(blend(colours.paper, rampAt(colours, byte / 255), brightness)),
  );
}
