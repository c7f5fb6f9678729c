// All heads as a picture to save, and every head's answers as a table.
import { css, signedColour, weightColour, type Palette } from "../../draw/colour";
import { paintThumbnails, type GridLayout } from "../../draw/head-grid";
import type { Microscope } from "../state/microscope.svelte";
import type { Mark, Picture } from "../../save/picture";

export interface GridShown {
  shaded: boolean; // one shade a head instead of a thumbnail
  scores: Float32Array | null;
  difference: Float32Array | null;
  brightness: (head: number) => number;
}

const SCALE = 3;

export function gridPicture(scope: Microscope, grid: GridLayout, shown: GridShown, colours: Palette): Picture {
  const asked = scope.model!.questions.find((question) => question.name === scope.show)?.title ?? scope.show;
  const named = grid.cells.filter((spot) => spot.column === 0);
  const rows: Mark[] =
    scope.order === "ranked"
      ? []
      : named.map((spot) =>
          label(scope.heads[spot.head].site.name, grid.left - 7, spot.y + grid.cellHeight / 2 + 3.5, colours),
        );
  return {
    file: "heads",
    title: `${scope.model!.title}, all heads${asked ? `: ${asked.toLowerCase()}` : ""}`,
    note: scope.look!.text.slice(0, 400),
    width: grid.width,
    height: grid.height,
    paper: css(colours.paper),
    ink: css(colours.ink),
    marks: [
      ...(shown.shaded ? shades(scope, grid, shown, colours) : [thumbnails(scope, grid, shown, colours)]),
      ...rows,
    ],
    table: {
      columns: ["head", ...scope.model!.questions.map((question) => question.title)],
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

function shades(scope: Microscope, grid: GridLayout, { scores, difference }: GridShown, colours: Palette): Mark[] {
  const values = difference ?? scores ?? scope.scores("share");
  const top = Math.max(1e-6, ...Array.from(values ?? [], Math.abs).filter(Number.isFinite));
  return grid.cells.map((spot): Mark => {
    const part = (Number.isFinite(values?.[spot.head]) ? values![spot.head] : 0) / top;
    const fill = difference && scope.show ? signedColour(colours, part) : weightColour(colours, part);
    return { kind: "rect", x: spot.x, y: spot.y, width: grid.cell - 1, height: grid.cellHeight - 1, fill: css(fill) };
  });
}

function thumbnails(scope: Microscope, grid: GridLayout, { brightness }: GridShown, colours: Palette): Mark {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(grid.width * SCALE), Math.ceil(grid.height * SCALE)];
  const image = new ImageData(canvas.width, canvas.height);
  const { thumbnails: bytes, side } = scope.look!;
  const causal = scope.heads.map((place) => place.site.causal);
  paintThumbnails(
    new Uint32Array(image.data.buffer),
    canvas.width,
    grid,
    SCALE,
    { bytes, side, causal, brightness, aside: scope.settings.aside },
    colours,
  );
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return { kind: "image", x: 0, y: 0, width: canvas.width / SCALE, height: canvas.height / SCALE, canvas };
}
