// The grid of heads as a picture to save, with every head's scores as a table.
import { css, signedColour, weightColour, type Palette } from "../../draw/colour";
import { drawThumbnails, type GridLayout, type Thumbnails } from "../../draw/head-grid";
import { dashColour, dashOf } from "../../draw/signed-cell";
import type { Microscope } from "../state/microscope.svelte";
import type { Mark, Picture } from "../../save/picture";
import { words } from "../../words/words";
import { siteLabels } from "../state/site-labels";

export interface GridShown {
  shade: ((head: number) => number) | null; // one shade for each head, up to 1, instead of a thumbnail
  signed: boolean; // the shades are differences, from −1
  brightness: (head: number) => number;
}

const SCALE = 3;

export function gridPicture(scope: Microscope, grid: GridLayout, shown: GridShown, colours: Palette): Picture {
  const asked = scope.model!.questions.find((question) => question.name === scope.show)?.title ?? scope.show;
  const named = grid.cells.filter((spot) => spot.column === 0);
  const labels = siteLabels((scope.model?.sites ?? []).map((site) => site.name));
  const rows: Mark[] =
    scope.order === "ranked"
      ? []
      : named.map((spot) =>
          label(labels[scope.heads[spot.head].siteIndex], grid.left - 7, spot.y + grid.cellHeight / 2 + 3.5, colours),
        );
  return {
    file: "heads",
    title: `${words.grid.picture(scope.model!.title)}${asked ? `: ${asked.toLowerCase()}` : ""}`,
    note: scope.look!.text.slice(0, 400),
    width: grid.width,
    height: grid.height,
    marks: [
      ...(shown.shade ? shades(grid, shown, colours) : [image(grid, thumbnailsOf(scope, shown.brightness), colours)]),
      ...rows,
    ],
    table: {
      columns: [words.grid.column, ...scope.model!.questions.map((question) => question.title)],
      rows: scope.heads.map((place, head) => [
        place.name,
        ...scope.model!.questions.map((question) =>
          Number((scope.scores(question.name)?.[head] ?? NaN).toPrecision(6)),
        ),
      ]),
    },
  };
}

const label = (text: string, x: number, y: number, colours: Palette): Mark => ({
  kind: "text",
  text,
  x,
  y,
  anchor: "end",
  size: 10,
  fill: css(colours.ink3),
});

function shades(grid: GridLayout, { shade, signed }: GridShown, colours: Palette): Mark[] {
  const [width, height] = [grid.cell - 1, grid.cellHeight - 1];
  return grid.cells.flatMap(({ x, y, head }): Mark[] => {
    const value = shade!(head);
    const colour = signed ? signedColour(colours, value) : weightColour(colours, value);
    const dash = signed ? dashOf({ x, y, width, height }, value) : null;
    const cell: Mark = { kind: "rect", x, y, width, height, fill: css(colour) };
    return dash ? [cell, { kind: "rect", ...dash, fill: css(dashColour(colours, value)) }] : [cell];
  });
}

/** The patterns that a look came with, as the grid paints them. */
export function thumbnailsOf(scope: Microscope, brightness: (head: number) => number = () => 1): Thumbnails {
  const { thumbnails: bytes, side } = scope.look!;
  const causal = scope.heads.map((head) => head.site.causal);
  return { bytes, side, causal, brightness, aside: scope.settings.aside };
}

function image(grid: GridLayout, thumbs: Thumbnails, colours: Palette): Mark {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(grid.width * SCALE), Math.ceil(grid.height * SCALE)];
  drawThumbnails(canvas.getContext("2d")!, grid, SCALE, thumbs, colours);
  return { kind: "image", x: 0, y: 0, width: canvas.width / SCALE, height: canvas.height / SCALE, canvas };
}
