// An attention pattern as a picture to save.
import { css, pixel, weightColour, type Palette } from "../../draw/colour";
import type { Mark, Picture } from "../../save/picture";

export interface Sheet {
  file: string;
  title: string;
  note?: string;
  rows: string[];
  columns: string[];
  firstRow: number;
  firstColumn: number;
  weight: (row: number, column: number) => number; // places of this sheet, from 0
  top: number; // what the darkest colour stands for
  mileage: boolean;
  causal: boolean;
  selected: number; // a row of this sheet, or −1
}

const EDGE = 64;
const MOST_RECTANGLES = 160 * 160; // past this a file is a picture of pixels

const visible = (sheet: Sheet, row: number, column: number) =>
  !sheet.causal || sheet.firstColumn + column <= sheet.firstRow + row;
const colour = (sheet: Sheet, colours: Palette, row: number, column: number) =>
  weightColour(colours, sheet.weight(row, column) / sheet.top);

export function patternPicture(sheet: Sheet, colours: Palette): Picture {
  const [height, width] = [sheet.rows.length, sheet.columns.length];
  const cell = Math.max(1, Math.min(24, Math.floor(1600 / Math.max(height, width))));
  const top = sheet.mileage ? 0 : EDGE;
  const marks: Mark[] =
    height * width > MOST_RECTANGLES ? [pixels(sheet, colours, cell, top)] : cells(sheet, colours, cell, top);
  if (cell >= 10) marks.push(...names(sheet, colours, cell, top));
  const longest = Math.max(...sheet.rows.map((name) => name.length));
  return {
    file: sheet.file,
    title: sheet.title,
    note: sheet.note,
    width: width * cell + 20 + longest * 8,
    height: top + height * cell,
    marks,
    table: {
      columns: [sheet.title, ...sheet.columns.map((name, column) => `${sheet.firstColumn + column} ${name}`)],
      rows: sheet.rows.map((name, row) => [
        `${sheet.firstRow + row} ${name}`,
        ...sheet.columns.map((_, column) => Number(sheet.weight(row, column).toPrecision(7))),
      ]),
    },
  };
}

function cells(sheet: Sheet, colours: Palette, cell: number, top: number): Mark[] {
  const gap = cell >= 8 ? 1 : 0;
  return sheet.rows.flatMap((_, row) =>
    sheet.columns.flatMap((_, column): Mark[] =>
      visible(sheet, row, column)
        ? [
            {
              kind: "rect",
              x: column * cell,
              y: top + row * cell,
              width: cell - gap,
              height: cell - gap,
              fill: css(colour(sheet, colours, row, column)),
            },
          ]
        : [],
    ),
  );
}

function pixels(sheet: Sheet, colours: Palette, cell: number, top: number): Mark {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [sheet.columns.length, sheet.rows.length];
  const image = new ImageData(canvas.width, canvas.height);
  const into = new Uint32Array(image.data.buffer);
  sheet.rows.forEach((_, row) =>
    sheet.columns.forEach((_, column) => {
      if (visible(sheet, row, column)) into[row * canvas.width + column] = pixel(colour(sheet, colours, row, column));
    }),
  );
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return { kind: "image", x: 0, y: top, width: canvas.width * cell, height: canvas.height * cell, canvas };
}

function names(sheet: Sheet, colours: Palette, cell: number, top: number): Mark[] {
  const style = { kind: "text", face: "serif", size: Math.min(13, cell) } as const;
  const rows = sheet.rows.map((text, row): Mark => ({
    ...style,
    text,
    x: (sheet.mileage ? row + 1 : sheet.columns.length) * cell + 6,
    y: top + (row + 0.5) * cell + 4,
    fill: css(row === sheet.selected ? colours.accent : colours.ink),
  }));
  if (sheet.mileage) return rows;
  return [
    ...rows,
    ...sheet.columns.map((text, column): Mark => ({
      ...style,
      text,
      x: (column + 0.5) * cell + 4,
      y: top - 6,
      fill: css(colours.ink),
      turned: true,
    })),
  ];
}
