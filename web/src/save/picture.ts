// Any picture of the page as a list of marks, and the files made from it: SVG, CSV and one HTML page. Pure; paint.ts makes the PNG.

export type Mark =
  | {
      kind: "rect";
      x: number;
      y: number;
      width: number;
      height: number;
      fill?: string;
      stroke?: string;
      thick?: number;
      opacity?: number;
    }
  | { kind: "line"; x1: number; y1: number; x2: number; y2: number; stroke: string; thick?: number }
  | {
      kind: "circle";
      x: number;
      y: number;
      r: number;
      fill?: string;
      stroke?: string;
      thick?: number;
      opacity?: number;
    }
  | { kind: "path"; d: string; stroke: string; thick: number; opacity?: number }
  | {
      kind: "text";
      x: number;
      y: number;
      text: string;
      fill: string;
      size?: number;
      face?: Face;
      bold?: boolean;
      anchor?: Anchor;
      turned?: boolean;
    }
  | { kind: "image"; x: number; y: number; width: number; height: number; canvas: HTMLCanvasElement };

export type Face = "sans" | "serif" | "mono";
export type Anchor = "start" | "middle" | "end";

export interface Table {
  columns: string[];
  rows: (string | number)[][];
}

export interface Picture {
  file: string; // the file's name, without its ending
  title: string;
  note?: string; // what the numbers are, in a sentence
  width: number;
  height: number;
  paper: string;
  ink: string;
  marks: Mark[];
  table: Table;
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

function element(mark: Mark): string {
  switch (mark.kind) {
    case "rect":
      return `<rect${attributes({ x: mark.x, y: mark.y, width: mark.width, height: mark.height, fill: mark.fill ?? "none", stroke: mark.stroke, "stroke-width": mark.thick, opacity: mark.opacity })}/>`;
    case "line":
      return `<line${attributes({ x1: mark.x1, y1: mark.y1, x2: mark.x2, y2: mark.y2, stroke: mark.stroke, "stroke-width": mark.thick })}/>`;
    case "circle":
      return `<circle${attributes({ cx: mark.x, cy: mark.y, r: mark.r, fill: mark.fill ?? "none", stroke: mark.stroke, "stroke-width": mark.thick, opacity: mark.opacity })}/>`;
    case "path":
      return `<path${attributes({ d: mark.d, fill: "none", stroke: mark.stroke, "stroke-width": mark.thick, opacity: mark.opacity })}/>`;
    case "image":
      return `<image${attributes({ x: mark.x, y: mark.y, width: mark.width, height: mark.height, href: mark.canvas.toDataURL("image/png") })} style="image-rendering:pixelated"/>`;
    case "text": {
      const place = mark.turned
        ? { transform: `translate(${round(mark.x)} ${round(mark.y)}) rotate(-90)` }
        : { x: mark.x, y: mark.y };
      const style = {
        fill: mark.fill,
        "font-size": mark.size ?? 12,
        "font-family": FACES[mark.face ?? "sans"],
        "font-weight": mark.bold ? 600 : undefined,
      };
      return `<text${attributes({ ...place, ...style, "text-anchor": mark.anchor === "start" ? undefined : mark.anchor })}>${safe(mark.text)}</text>`;
    }
  }
}

export function svg(picture: Picture): string {
  const [width, height] = [round(picture.width + 2 * MARGIN), round(picture.height + HEADING + 2 * MARGIN)];
  const title = element({ kind: "text", x: 0, y: 14, text: picture.title, fill: picture.ink, size: 14, bold: true });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">` +
    `<title>${safe(picture.title)}</title><rect width="${width}" height="${height}" fill="${picture.paper}"/>` +
    `<g transform="translate(${MARGIN} ${MARGIN})">${title}<g transform="translate(0 ${HEADING})">${picture.marks.map(element).join("")}</g></g></svg>\n`
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

/** One page that needs nothing else: the picture, and its numbers in a table. */
export function html(picture: Picture): string {
  const row = (tag: string, values: (string | number)[]) =>
    `<tr>${values.map((value) => `<${tag}>${safe(String(value))}</${tag}>`).join("")}</tr>`;
  const style =
    `body{margin:24px auto;max-width:1100px;padding:0 16px;background:${picture.paper};color:${picture.ink};font:14px/1.5 ${FACES.sans.replace(/'/g, "")}}` +
    "svg{max-width:100%;height:auto}table{border-collapse:collapse;font-size:12px;font-variant-numeric:tabular-nums}td,th{padding:2px 12px 2px 0;text-align:left;white-space:pre}";
  return (
    `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${safe(picture.title)}</title><style>${style}</style></head>` +
    `<body>${svg(picture)}${picture.note ? `<p>${safe(picture.note)}</p>` : ""}<details><summary>The numbers</summary><table>` +
    `<thead>${row("th", picture.table.columns)}</thead><tbody>${picture.table.rows.map((values) => row("td", values)).join("")}</tbody></table></details></body></html>\n`
  );
}
