// Model map and forest plot of a census as pictures to save.
import { css } from "../draw/colour";
import { dashColour, dashOf } from "../draw/signed-cell";
import type { About, Mark, Picture, Table } from "../save/picture";
import { theme } from "../ui/theme.svelte";

interface MapSheet {
  sites: { name: string; n_heads: number }[];
  places: { row: number; column: number }[];
  values: number[];
  fill: (value: number) => string;
  signedTop: number | null; // the largest difference, where differences are shown
  heads: string[];
  quantity: string;
  file: string;
  title: string;
}

export function mapPicture(sheet: MapSheet): Picture {
  const { sites, places, values, fill, heads, quantity, file, title } = sheet;
  const [cell, left] = [24, 84];
  const ink = css(theme.colours.ink);
  const marks: Mark[] = sites.map((site, row) => ({
    kind: "text",
    x: left - 8,
    y: row * cell + 16,
    text: site.name,
    fill: ink,
    anchor: "end",
    size: 11,
  }));
  places.forEach(({ row, column }, k) => {
    if (!Number.isFinite(values[k])) return;
    const box = { x: left + column * cell, y: row * cell, width: cell - 1, height: cell - 1 };
    marks.push({ kind: "rect", ...box, fill: fill(values[k]) });
    const part = sheet.signedTop === null ? 0 : values[k] / sheet.signedTop;
    const dash = dashOf(box, part);
    if (dash) marks.push({ kind: "rect", ...dash, fill: css(dashColour(theme.colours, part)) });
  });
  const across = Math.max(...sites.map((site) => site.n_heads));
  const table: Table = { columns: ["head", quantity], rows: heads.map((head, k) => [head, values[k]]) };
  return {
    file,
    title,
    width: left + across * cell,
    height: sites.length * cell,
    marks,
    table,
  };
}

export interface Whisker {
  name: string;
  value: number;
  low: number;
  high: number;
  chance?: [number, number];
}

/** A forest plot: grey bar = null, dot and whisker = head. `least` is where the axis begins. */
export function forest(rows: Whisker[], least: number, most: number, about: About): Picture {
  const [high, left, width] = [20, 84, 420];
  const root = getComputedStyle(document.documentElement);
  const [ink, quiet, hair] = [
    css(theme.colours.ink),
    root.getPropertyValue("--quiet").trim(),
    root.getPropertyValue("--line").trim(),
  ];
  const x = (value: number) => left + (Math.max(0, Math.min(1, (value - least) / (most - least))) || 0) * width;
  const marks = rows.flatMap(({ name, value, low, high: top, chance }, k): Mark[] => {
    const y = k * high + 10;
    return [
      { kind: "line", x1: left, x2: left + width, y1: y, y2: y, stroke: hair },
      ...(chance
        ? [
            {
              kind: "rect",
              x: x(chance[0]),
              y: y - 4,
              width: Math.max(2, x(chance[1]) - x(chance[0])),
              height: 8,
              fill: quiet,
            } as Mark,
          ]
        : []),
      { kind: "line", x1: x(low), x2: x(top), y1: y, y2: y, stroke: ink, thick: 2 },
      { kind: "circle", x: x(value), y, r: 3.5, fill: ink },
      { kind: "text", x: left - 8, y: y + 4, text: name, fill: ink, anchor: "end" },
      { kind: "text", x: left + width + 8, y: y + 4, text: value.toFixed(3), fill: ink },
    ];
  });
  return {
    ...about,
    width: left + width + 60,
    height: rows.length * high,
    marks,
  };
}
