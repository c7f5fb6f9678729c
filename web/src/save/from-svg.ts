// Turn SVG on the page into the marks of a picture to save.
import type { About, Anchor, Mark, Picture } from "./picture";

/** The marks of these drawings, one under the other. Shapes that are moved may only be moved, not turned. */
export function marksOf(drawings: Iterable<SVGSVGElement>, gap = 12): { marks: Mark[]; width: number; height: number } {
  const marks: Mark[] = [];
  let [width, height] = [0, 0];
  for (const drawing of drawings) {
    const box = drawing.getBoundingClientRect();
    for (const shape of drawing.querySelectorAll<SVGGraphicsElement>("rect, line, circle, path, text")) {
      const mark = markOf(shape, height);
      if (mark) marks.push(mark);
    }
    width = Math.max(width, box.width);
    height += box.height + gap;
  }
  return { marks, width, height: Math.max(0, height - gap) };
}

function markOf(shape: SVGGraphicsElement, down: number): Mark | null {
  const style = getComputedStyle(shape);
  const at = (name: string) => Number(shape.getAttribute(name) ?? 0);
  const moved = shape.getCTM();
  const [dx, dy] = [moved?.e ?? 0, (moved?.f ?? 0) + down];
  const paint = (value: string) => (value === "none" || value === "rgba(0, 0, 0, 0)" ? undefined : value);
  const look = {
    fill: paint(style.fill),
    stroke: paint(style.stroke),
    thick: parseFloat(style.strokeWidth) || 1,
    opacity: Number(style.opacity),
  };
  if (style.display === "none" || style.visibility === "hidden" || look.opacity === 0) return null;
  switch (shape.tagName) {
    case "rect":
      return { kind: "rect", x: at("x") + dx, y: at("y") + dy, width: at("width"), height: at("height"), ...look };
    case "circle":
      return { kind: "circle", x: at("cx") + dx, y: at("cy") + dy, r: at("r"), ...look };
    case "line":
      return look.stroke
        ? {
            kind: "line",
            x1: at("x1") + dx,
            x2: at("x2") + dx,
            y1: at("y1") + dy,
            y2: at("y2") + dy,
            stroke: look.stroke,
            thick: look.thick,
          }
        : null;
    case "path":
      return look.stroke
        ? {
            kind: "path",
            d: shift(shape.getAttribute("d") ?? "", dx, dy),
            stroke: look.stroke,
            thick: look.thick,
            opacity: look.opacity,
          }
        : null;
    default:
      return {
        kind: "text",
        x: at("x") + dx,
        y: at("y") + dy,
        text: (shape.textContent ?? "").trim(),
        fill: look.fill ?? style.color,
        size: parseFloat(style.fontSize),
        face: style.fontFamily.includes("Serif") ? "serif" : style.fontFamily.includes("Mono") ? "mono" : "sans",
        bold: Number(style.fontWeight) >= 600,
        anchor: style.textAnchor as Anchor,
      };
  }
}

/** A path of M, L and C, all absolute, moved. */
export function shift(d: string, dx: number, dy: number): string {
  let even = false;
  return d.replace(/[A-Za-z]|-?\d*\.?\d+(?:e-?\d+)?/g, (part) => {
    if (/^[A-Za-z]$/.test(part)) {
      even = false;
      return part;
    }
    even = !even;
    return `${Math.round((Number(part) + (even ? dx : dy)) * 100) / 100} `;
  });
}

/** The picture of everything drawn as SVG inside an element. */
export function pictureFromSvg(place: HTMLElement, about: About): Picture {
  return { ...about, ...marksOf(place.querySelectorAll("svg")) };
}
