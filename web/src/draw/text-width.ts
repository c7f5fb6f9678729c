// Width of a text in a font.
const ruler = typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");

export function textWidth(text: string, font: string): number {
  if (!ruler) return text.length * 7;
  ruler.font = font;
  return ruler.measureText(text).width;
}
