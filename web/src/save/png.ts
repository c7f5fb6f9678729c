// The picture of pattern.ts on a canvas, where the page's own typeface is at hand.
import { css, weightColour, type Palette } from "../draw/colour";
import { frame, visibleCell, type Sheet } from "./pattern";

const SCALE = 2;

export function png(sheet: Sheet, colours: Palette): Promise<Blob> {
  const cell = Math.max(1, Math.min(24, Math.floor(1600 / Math.max(sheet.rows.length, sheet.columns.length))));
  const { top, label, width, height } = frame(sheet, cell);
  const canvas = new OffscreenCanvas((width + 8) * SCALE, height * SCALE);
  const context = canvas.getContext("2d")!;
  context.scale(SCALE, SCALE);
  context.fillStyle = css(colours.paper);
  context.fillRect(0, 0, width + 8, height);
  context.translate(8, 0);
  context.fillStyle = css(colours.ink);
  context.font = '600 14px "IBM Plex Sans", sans-serif';
  context.fillText(sheet.title, 0, 20);
  const gap = cell >= 8 ? 1 : 0;
  sheet.rows.forEach((_, row) =>
    sheet.columns.forEach((_, column) => {
      if (!visibleCell(sheet, row, column)) return;
      context.fillStyle = css(weightColour(colours, sheet.weight(row, column)));
      context.fillRect(column * cell, top + row * cell, cell - gap, cell - gap);
    }),
  );
  if (cell >= 12) names(context, sheet, colours, cell, top, label);
  return canvas.convertToBlob({ type: "image/png" });
}

function names(context: OffscreenCanvasRenderingContext2D, sheet: Sheet, colours: Palette, cell: number, top: number, label: (row: number) => { x: number; y: number }): void {
  context.font = `${Math.min(13, cell)}px "IBM Plex Serif", Georgia, serif`;
  sheet.rows.forEach((name, row) => {
    const { x, y } = label(row);
    context.fillStyle = css(row === sheet.selected ? colours.accent : colours.ink);
    context.fillText(name, x, y);
  });
  if (sheet.mileage) return;
  context.fillStyle = css(colours.ink);
  sheet.columns.forEach((name, column) => {
    context.save();
    context.translate((column + 0.5) * cell + 4, top - 6);
    context.rotate(-Math.PI / 2);
    context.fillText(name, 0, 0);
    context.restore();
  });
}
