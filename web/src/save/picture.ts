// A picture to save as a list of marks and a table, and its files: SVG, CSV and HTML (png.ts makes the PNG).
import { language, words } from "../words/words";

interface Look {
  fill?: string;
  stroke?: string;
  thick?: number;
  dash?: string;
  opacity?: number;
}

type Shape =
  | { kind: "rect"; x: number; y: number; width: number; height: number }
  | { kind: "line"; x1: number; y1: number; x2: number; y2: number }
  | { kind: "circle"; x: number; y: number; r: number }
  | { kind: "path"; d: string; at: Matrix }; // where it stands
type Matrix = [a: number, b: number, c: number, d: number, e: number, f: number];

export type Mark =
  | (Shape & Look)
  | {
      kind: "text";
      x: number;
      y: number;
      text: string;
      fill: string;
      size?: number;
      face?: Face;
      weight?: number;
      italic?: boolean;
      anchor?: Anchor;
      turned?: boolean;
      opacity?: number;
    }
  | { kind: "image"; x: number; y: number; width: number; height: number; canvas: HTMLCanvasElement };

export type Face = "sans" | "serif" | "mono";
export type Anchor = "start" | "middle" | "end";

export interface Table {
  columns: string[];
  rows: (string | number)[][];
}

/** What a file says of a picture: its name without ending, a title, the numbers, and what they are. */
export interface About {
  file: string;
  title: string;
  note?: string;
  table: Table;
}

export interface Picture extends About {
  left?: number; // of the first mark
  top?: number;
  width: number;
  height: number;
  marks: Mark[];
}

/** The colours of the page that a picture lies on. */
export interface PageColours {
  paper: string;
  ink: string;
}

export const FACES: Record<Face, string> = {
  sans: "'IBM Plex Sans', 'Segoe UI', system-ui, sans-serif",
  serif: "'IBM Plex Serif', Charter, Georgia, serif",
  mono: "'IBM Plex Mono', ui-monospace, Consolas, monospace",
};
export const MARGIN = 16;
export const HEADING = 34; // room for the title above the marks

const safe = (text: string) =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
const round = (value: number) => Math.round(value * 100) / 100;

/** `name="value"` for what is there. */
function attributes(values: Record<string, string | number | undefined>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}="${typeof value === "number" ? round(value) : safe(value!)}"`)
    .join("");
}

function tag(name: string, values: Record<string, string | number | undefined>, more = ""): string {
  return `<${name}${attributes(values)}${more}/>`;
}

/** The attributes that SVG has for the place of a shape. */
function drawnAt(place: Record<string, string | number | number[]>) {
  if ("r" in place) return { cx: place.x, cy: place.y, r: place.r };
  return "at" in place ? { d: place.d, transform: `matrix(${(place.at as number[]).map(round).join(" ")})` } : place;
}

function element(mark: Mark): string {
  switch (mark.kind) {
    case "rect":
    case "line":
    case "circle":
    case "path": {
      const { kind, fill = "none", stroke, thick, dash, opacity, ...place } = mark;
      const line = stroke ? { stroke, "stroke-width": thick, "stroke-dasharray": dash } : {};
      return tag(kind, { ...drawnAt(place), fill, ...line, opacity });
    }
    case "image": {
      const { x, y, width, height, canvas } = mark;
      const href = canvas.toDataURL("image/png");
      return tag("image", { x, y, width, height, href }, ' style="image-rendering:pixelated"');
    }
    case "text": {
      const { x, y, fill, size = 12, face = "sans", weight, italic, anchor, turned, opacity } = mark;
      const place = turned ? { transform: `translate(${round(x)} ${round(y)}) rotate(-90)` } : { x, y };
      const font = {
        "font-size": size,
        "font-family": FACES[face],
        "font-weight": weight,
        "font-style": italic ? "italic" : undefined,
      };
      const text = attributes({
        ...place,
        fill,
        ...font,
        opacity,
        "text-anchor": anchor === "start" ? undefined : anchor,
      });
      return `<text${text}>${safe(mark.text)}</text>`;
    }
  }
}

export function svg(picture: Picture, { paper, ink }: PageColours): string {
  const [width, height] = [round(picture.width + 2 * MARGIN), round(picture.height + HEADING + 2 * MARGIN)];
  const title = element({ kind: "text", x: 0, y: 14, text: picture.title, fill: ink, size: 14, weight: 600 });
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img">` +
    `<title>${safe(picture.title)}</title><rect width="${width}" height="${height}" fill="${paper}"/>` +
    `<g transform="translate(${MARGIN} ${MARGIN})">${title}` +
    `<g transform="translate(${round(-(picture.left ?? 0))} ${round(HEADING - (picture.top ?? 0))})">${picture.marks.map(element).join("")}</g></g></svg>\n`
  );
}

/** Cells that would begin a formula in a spreadsheet are quoted with a leading apostrophe. */
function cell(value: string | number): string {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${text.replace(/"/g, '""')}"`;
}

export function csv(table: Table): string {
  return [table.columns, ...table.rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

const STYLE =
  "svg{max-width:100%;height:auto}" +
  "table{border-collapse:collapse;font-size:12px;font-variant-numeric:tabular-nums}" +
  "td,th{padding:2px 12px 2px 0;text-align:left;white-space:pre}";

/** One page that needs nothing else: the picture, and its numbers in a table. */
export function html(picture: Picture, page: PageColours): string {
  const row = (name: string, values: (string | number)[]) =>
    `<tr>${values.map((value) => `<${name}>${safe(String(value))}</${name}>`).join("")}</tr>`;
  const body =
    "body{margin:24px auto;max-width:1100px;padding:0 16px;" +
    `background:${page.paper};color:${page.ink};font:14px/1.5 ${FACES.sans.replace(/'/g, "")}}`;
  return (
    `<!doctype html>\n<html lang="${language}"><head><meta charset="utf-8">` +
    '<meta name="viewport" content="width=device-width">' +
    `<title>${safe(picture.title)}</title><style>${body}${STYLE}</style></head>` +
    `<body>${svg(picture, page)}${picture.note ? `<p>${safe(picture.note)}</p>` : ""}` +
    `<details><summary>${safe(words.ui.numbers)}</summary><table>` +
    `<thead>${row("th", picture.table.columns)}</thead>` +
    `<tbody>${picture.table.rows.map((values) => row("td", values)).join("")}</tbody>` +
    "</table></details></body></html>\n"
  );
}
