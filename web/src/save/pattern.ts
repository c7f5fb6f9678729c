// One head's pattern as a file: its weights as CSV, its picture as SVG. Pure; png.ts draws the same picture on a canvas.
import { css, weightColour, type Palette } from "../draw/colour";

export interface Sheet {
  title: string;
  rows: string[];
  columns: string[];
  firstRow: number;
  firstColumn: number;
  weight: (row: number, column: number) => number; // places of this sheet, from 0
  mileage: boolean;
  causal: boolean;
  selected: number; // a row of this sheet, or −1
}

export const TOP = 34;
export const EDGE = 64;

export function csv(sheet: Sheet): string {
  const quoted = (text: string) => `"${text.replace(/"/g, '""')}"`;
  const names = sheet.columns.map((name, column) => quoted(`${sheet.firstColumn + column} ${name}`));
  const lines = sheet.rows.map((name, row) =>
    [quoted(`${sheet.firstRow + row} ${name}`), ...sheet.columns.map((_, column) => sheet.weight(row, column).toPrecision(7))].join(","),
  );
  return [[quoted(sheet.title), ...names].join(","), ...lines].join("\n") + "\n";
}

export function visibleCell(sheet: Sheet, row: number, column: number): boolean {
  return !sheet.causal || sheet.firstColumn + column <= sheet.firstRow + row;
}

/** Where things stand, for both kinds of picture. */
export function frame(sheet: Sheet, cell: number) {
  const top = TOP + (sheet.mileage ? 0 : EDGE);
  const label = (row: number) => ({ x: (sheet.mileage ? row + 1 : sheet.columns.length) * cell + 6, y: top + (row + 0.5) * cell + 4 });
  const longest = Math.max(...sheet.rows.map((name) => name.length));
  return { top, label, width: sheet.columns.length * cell + 20 + longest * 8, height: top + sheet.rows.length * cell + 8 };
}

export function svg(sheet: Sheet, colours: Palette, cell = 24): string {
  const { top, label, width, height } = frame(sheet, cell);
  const safe = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const parts: string[] = [];
  sheet.rows.forEach((name, row) => {
    sheet.columns.forEach((_, column) => {
      if (visibleCell(sheet, row, column))
        parts.push(`<rect x="${column * cell}" y="${top + row * cell}" width="${cell - 1}" height="${cell - 1}" fill="${css(weightColour(colours, sheet.weight(row, column)))}"/>`);
    });
    const { x, y } = label(row);
    parts.push(`<text x="${x}" y="${y}" fill="${css(row === sheet.selected ? colours.accent : colours.ink)}">${safe(name)}</text>`);
  });
  if (!sheet.mileage)
    sheet.columns.forEach((name, column) => parts.push(`<text transform="translate(${(column + 0.5) * cell + 4} ${top - 6}) rotate(-90)" fill="${css(colours.ink)}">${safe(name)}</text>`));
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 0 ${width + 8} ${height}" width="${width + 8}" height="${height}" font-family="'IBM Plex Serif', Charter, Georgia, serif" font-size="13">` +
    `<title>${safe(sheet.title)}</title><rect x="-8" width="${width + 8}" height="${height}" fill="${css(colours.paper)}"/>` +
    `<text y="20" font-size="14" font-weight="600" font-family="'IBM Plex Sans', sans-serif" fill="${css(colours.ink)}">${safe(sheet.title)}</text>${parts.join("")}</svg>\n`
  );
}
