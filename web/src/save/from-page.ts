// What stands on the page, HTML and SVG alike, as the marks of a picture to save: what is shown is what is saved.
import type { About, Anchor, Mark, Picture } from "./picture";

const CONTROLS = "[data-control], .hidden, select, [type=range], [type=checkbox], textarea, progress";
const LETTER = 8; // pixels that a letter of the title takes at most, nearly
const SHAPES = ["rect", "line", "circle", "path", "text"];
const ASCENT = 0.79; // of a line's height, from its top to its baseline

interface Bounds {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const EVERYWHERE: Bounds = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
const meet = (a: Bounds, b: Bounds) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const painted = (colour: string) => (/^none$|[,/] ?0\)$/.test(colour) ? undefined : colour);

/** The picture of these elements as they stand, without what is pressed and without `aside`. */
export function pictureFromPage(whole: Element[], aside: Element, about: About): Picture {
  const marks: Mark[] = [];
  const all: Bounds = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  const add = (mark: Mark, at: Bounds, within: Bounds) => {
    if (!meet(at, within)) return;
    marks.push(mark);
    [all.left, all.top] = [Math.min(all.left, at.left), Math.min(all.top, at.top)];
    [all.right, all.bottom] = [Math.max(all.right, at.right), Math.max(all.bottom, at.bottom)];
  };

  function visit(element: Element, above: number, around: Bounds): void {
    const style = getComputedStyle(element);
    const opacity = above * Number(style.opacity);
    if (element === aside || element.matches(CONTROLS) || style.display === "none" || opacity === 0) return;
    const box = element.getBoundingClientRect();
    const visible = style.visibility !== "hidden";
    if (element instanceof SVGGraphicsElement && SHAPES.includes(element.tagName)) {
      const mark = visible && shapeMark(element, style, opacity);
      if (mark) add(mark, box, around);
      return;
    }
    if (visible && element instanceof HTMLCanvasElement) {
      const { x, y, width, height } = box;
      return add({ kind: "image", x, y, width, height, canvas: element }, box, around);
    }
    if (visible && element instanceof HTMLElement && !whole.includes(element))
      for (const mark of boxMarks(box, style, opacity)) add(mark, box, around);
    if (visible && element instanceof HTMLInputElement)
      add(textMark(typed(element, box, style), style, opacity), box, around);
    const within = style.overflowX === "visible" || element instanceof SVGElement ? around : common(around, box);
    for (const child of element.childNodes) {
      if (child instanceof Element) visit(child, opacity, within);
      else if (visible && child instanceof Text)
        for (const line of linesOf(child, within)) add(textMark(line, style, opacity), line, within);
    }
  }

  for (const part of whole) visit(part, 1, EVERYWHERE);
  const { left, top, right, bottom } = all;
  const width = Math.max(right - left, LETTER * about.title.length);
  return { ...about, left, top, width, height: bottom - top, marks };
}

const common = (a: Bounds, b: Bounds): Bounds => ({
  left: Math.max(a.left, b.left),
  top: Math.max(a.top, b.top),
  right: Math.min(a.right, b.right),
  bottom: Math.min(a.bottom, b.bottom),
});

function shapeMark(shape: SVGGraphicsElement, style: CSSStyleDeclaration, opacity: number): Mark | null {
  const moved = shape.getScreenCTM()!;
  const at = (name: string) => Number(shape.getAttribute(name) ?? 0);
  const x = (name: string) => at(name) * moved.a + moved.e;
  const y = (name: string) => at(name) * moved.d + moved.f;
  const dash = style.strokeDasharray === "none" ? undefined : style.strokeDasharray.replace(/px|,/g, "");
  const stroke = painted(style.stroke);
  const look = { fill: painted(style.fill), stroke, thick: parseFloat(style.strokeWidth) || 1, opacity, dash };
  if (shape.tagName === "text") return textMark(svgText(shape, x("x"), y("y")), style, opacity, y("y"));
  if (!look.fill && !look.stroke) return null;
  switch (shape.tagName) {
    case "rect":
      return {
        kind: "rect",
        x: x("x"),
        y: y("y"),
        width: at("width") * moved.a,
        height: at("height") * moved.d,
        ...look,
      };
    case "circle":
      return { kind: "circle", x: x("cx"), y: y("cy"), r: at("r") * moved.a, ...look };
    case "line":
      return stroke ? { kind: "line", x1: x("x1"), x2: x("x2"), y1: y("y1"), y2: y("y2"), ...look, stroke } : null;
    default: {
      const { a, b, c, d, e, f } = moved;
      return { kind: "path", d: shape.getAttribute("d") ?? "", at: [a, b, c, d, e, f], ...look };
    }
  }
}

interface Line extends Bounds {
  text: string;
}

const svgText = (shape: SVGGraphicsElement, x: number, y: number): Line => ({
  text: (shape.textContent ?? "").trim(),
  left: x,
  right: x,
  top: y,
  bottom: y,
});

/** What stands in a field, in the middle of its height. */
function typed({ value }: HTMLInputElement, { left, right, top, bottom }: DOMRect, style: CSSStyleDeclaration): Line {
  const [middle, half] = [(top + bottom) / 2, 0.65 * parseFloat(style.fontSize)];
  return { text: value, left, right, top: middle - half, bottom: middle + half };
}

/** A line of text: at its right edge, middle or left edge, as the page sets it. */
function textMark(line: Line, style: CSSStyleDeclaration, opacity: number, baseline?: number): Mark {
  const set: Record<string, Anchor> = { right: "end", end: "end", center: "middle" };
  const anchor = baseline === undefined ? (set[style.textAlign] ?? "start") : (style.textAnchor as Anchor);
  return {
    kind: "text",
    text: line.text,
    x: anchor === "end" ? line.right : anchor === "middle" ? (line.left + line.right) / 2 : line.left,
    y: baseline ?? line.top + ASCENT * (line.bottom - line.top),
    fill: baseline === undefined ? style.color : (painted(style.fill) ?? style.color),
    size: parseFloat(style.fontSize),
    face: style.fontFamily.includes("Serif") ? "serif" : style.fontFamily.includes("Mono") ? "mono" : "sans",
    weight: Number(style.fontWeight),
    italic: style.fontStyle === "italic",
    anchor,
    opacity,
  };
}

/** The lines that a text is broken into, cut where they leave the box around them. */
function linesOf(node: Text, within: Bounds): Line[] {
  const lines: Line[] = [];
  const range = document.createRange();
  for (const word of node.data.matchAll(/\S+/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const { left, top, right, bottom } = range.getBoundingClientRect();
    const last = lines.at(-1);
    if (right <= left) continue;
    if (last && Math.abs(last.top - top) < 2) [last.text, last.right] = [`${last.text} ${word[0]}`, right];
    else lines.push({ text: word[0], left, top, right, bottom });
  }
  for (const line of lines.filter((each) => each.right > within.right + 1)) {
    const letters = Math.floor((line.text.length * (within.right - line.left)) / (line.right - line.left));
    line.text = `${line.text.slice(0, Math.max(0, letters - 1))}…`;
    line.right = within.right;
  }
  return lines;
}

/** An element's background and its rules. */
function boxMarks(box: DOMRect, style: CSSStyleDeclaration, opacity: number): Mark[] {
  const { left, top, right, bottom, width, height } = box;
  const fill = painted(style.backgroundColor);
  const marks: Mark[] =
    fill && width && height ? [{ kind: "rect", x: left, y: top, width, height, fill, opacity }] : [];
  const rules: [string, string, number, number, number, number][] = [
    [style.borderTopWidth, style.borderTopColor, left, top, right, top],
    [style.borderBottomWidth, style.borderBottomColor, left, bottom, right, bottom],
    [style.borderLeftWidth, style.borderLeftColor, left, top, left, bottom],
    [style.borderRightWidth, style.borderRightColor, right, top, right, bottom],
  ];
  for (const [wide, colour, x1, y1, x2, y2] of rules) {
    const [thick, stroke] = [parseFloat(wide), painted(colour)];
    if (thick && stroke) marks.push({ kind: "line", x1, y1, x2, y2, stroke, thick });
  }
  return marks;
}
