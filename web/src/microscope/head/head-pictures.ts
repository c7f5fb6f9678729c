// Arc diagram and scores of one head as pictures to save.
import { arcs } from "../../draw/arcs";
import { css, type Palette } from "../../draw/colour";
import type { Microscope } from "../state/microscope.svelte";
import { short, visible } from "../../format";
import type { Mark, Picture } from "../../save/picture";
import { words } from "../../words/words";

const ROW = 26;
const WORDS = 260; // where the words begin

export function arcsPicture(
  scope: Microscope,
  weight: (query: number, key: number) => number,
  colours: Palette,
): Picture {
  const said = words.head.arcs.columns;
  const drawn = arcs({ length: scope.length, weight, cell: ROW, x: WORDS, selected: scope.token });
  const marks = drawn.map((arc): Mark => {
    const stroke = css(arc.selected ? colours.accent : colours.ink);
    if (arc.path) return { kind: "path", d: arc.path, stroke, thick: arc.width, opacity: arc.opacity };
    const r = Math.sqrt(arc.weight) * ROW * 0.17;
    return { kind: "circle", x: WORDS - 4 - r, y: (arc.query + 0.5) * ROW, r, fill: stroke, opacity: arc.opacity };
  });
  const tokens = scope.tokens.map((token, row): Mark => ({
    kind: "text",
    text: visible(token.text),
    x: WORDS + 6,
    y: (row + 0.5) * ROW + 4.5,
    size: 14,
    face: "serif",
    fill: css(row === scope.token ? colours.accent : colours.ink),
  }));
  return {
    file: `arcs-${scope.here!.name}`,
    title: words.head.arcs.picture(scope.model!.title, scope.here!.name),
    width: WORDS + 120,
    height: scope.length * ROW,
    marks: [...marks, ...tokens],
    table: {
      columns: [said.query, said.reads, said.key, said.token, said.weight],
      rows: drawn
        .toSorted((a, b) => a.query - b.query || a.key - b.key)
        .map((arc) => [
          arc.query,
          visible(scope.tokens[arc.query].text),
          arc.key,
          visible(scope.keys[arc.key].text),
          Number(arc.weight.toPrecision(7)),
        ]),
    },
  };
}

export interface ScoreLine {
  title: string;
  value: number;
  rank: number;
  bars: number[];
  mark: number; // where the head stands, 0 to 1
}

export function scoresPicture(scope: Microscope, lines: ScoreLine[], colours: Palette): Picture {
  const [left, wide] = [140, 240];
  const said = words.head.scores;
  const marks = lines.flatMap((line, k): Mark[] => {
    const floor = k * 34 + 28;
    const unit = wide / line.bars.length;
    const bars = line.bars.flatMap((bar, at): Mark[] =>
      bar > 0
        ? [
            {
              kind: "rect",
              x: left + at * unit,
              y: floor - Math.max(2, bar * 20),
              width: unit - 1,
              height: Math.max(2, bar * 20),
              fill: css(colours.quiet),
            },
          ]
        : [],
    );
    const known: Mark[] = Number.isFinite(line.value)
      ? [
          {
            kind: "line",
            x1: left + line.mark * wide,
            x2: left + line.mark * wide,
            y1: floor - 25,
            y2: floor,
            stroke: css(colours.ink),
            thick: 2.4,
          },
        ]
      : [];
    const text = (written: string, x: number, fill: string, anchor: "start" | "end" = "start"): Mark => ({
      kind: "text",
      text: written,
      x,
      y: floor - 5,
      fill,
      anchor,
    });
    return [
      { kind: "line", x1: 0, x2: left + wide + 120, y1: floor, y2: floor, stroke: css(colours.line) },
      ...bars,
      ...known,
      text(line.title, 0, css(colours.ink)),
      text(short(line.value), left + wide + 46, css(colours.ink), "end"),
      text(
        Number.isFinite(line.value) ? `${line.rank}${said.of(String(scope.heads.length))}` : "",
        left + wide + 120,
        css(colours.ink3),
        "end",
      ),
    ];
  });
  return {
    file: `answers-${scope.here!.name}`,
    title: said.picture(scope.model!.title, scope.here!.name, scope.heads.length),
    note: scope.look!.text.slice(0, 400),
    width: left + wide + 124,
    height: lines.length * 34,
    marks,
    table: {
      columns: [said.columns.question, said.columns.answer, said.columns.rank, said.columns.heads],
      rows: lines.map((line) => [line.title, line.value, line.rank, scope.heads.length]),
    },
  };
}
