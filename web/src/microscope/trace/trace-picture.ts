// A trace as a picture to save: the sentence, tokens at the left, heads between, the prediction at the right.
import { css, type Palette } from "../../draw/colour";
import { percent, signed, visible } from "../../format";
import type { Mark, Picture } from "../../save/picture";
import type { Trace } from "../../source/source";
import { words } from "../../words/words";
import { unmarked, wrap } from "../why/why-picture";
import { plain, writerName } from "../why/why-sentence";
import { layOut, type LineKind, type TraceLayout, type TraceLine, type TraceNode } from "./trace-layout";
import { headline, underline } from "./trace-sentence";

export interface Traced {
  model: string;
  trace: Trace;
  tokens: string[];
  sites: string[];
  part: string | null; // the one that is followed
}

export const DASHES: Record<LineKind, string> = { adds: "", value: "", key: "6 3", query: "1.5 3" };
const WIDTH = 960;
const LETTERS = 140; // that fit into a line
type Text = Extract<Mark, { kind: "text" }>;

export function tracePicture(shown: Traced, colours: Palette): Picture {
  const { trace, tokens, sites } = shown;
  const layout = layOut(trace, tokens.length, { width: WIDTH, phone: false, sites });
  const text = (text: string, x: number, y: number, more: Partial<Text> = {}): Mark => ({
    kind: "text",
    text,
    x,
    y,
    size: 12,
    fill: css(colours.ink3),
    ...more,
  });
  const sentences = [headline(trace), underline(trace)].map(unmarked);
  const said = sentences.flatMap((each) => wrap(each, LETTERS));
  const top = said.length * 18 + 10;
  const foot = top + layout.height + 12;
  const notes = footOf(trace).flatMap((each) => wrap(each, LETTERS));
  const drawn = [...gridMarks(shown, layout, colours, text), ...partMarks(shown, layout, colours, text)];
  return {
    file: `trace-${trace.position.position}-${trace.token.id}`,
    title: words.trace.saved(shown.model, visible(trace.token.text)),
    note: [...sentences, ...footOf(trace)].join(" "),
    width: WIDTH,
    height: foot + 22 + notes.length * 18,
    marks: [
      ...said.map((each, k) => text(each, 0, 12 + k * 18, { fill: css(colours.ink) })),
      ...drawn.map((mark) => lower(mark, top)),
      ...legend(foot, colours, text),
      ...notes.map((each, k) => text(each, 0, foot + 24 + k * 18)),
    ],
    table: { columns: words.trace.table, rows: layout.lines.map(lineRow(trace)) },
  };
}

type Write = (text: string, x: number, y: number, more?: Partial<Text>) => Mark;

function gridMarks({ trace, tokens, sites }: Traced, layout: TraceLayout, colours: Palette, text: Write): Mark[] {
  const every = Math.ceil(sites.length / 16);
  const { left, right } = layout;
  const columns = layout.columns
    .filter((_, k) => k % every === 0)
    .map(({ layer, x }) => text(words.trace.layer(layer), x, 12, { anchor: "middle", size: 11 }));
  const rows = layout.rows.flatMap((row): Mark[] => {
    const query = row.at === trace.position.position;
    const token: Partial<Text> = { face: "serif", size: 15, fill: css(query ? colours.accent : colours.ink) };
    const name = row.count > 1 ? words.trace.folded(row.count) : visible(tokens[row.at]).slice(0, 12);
    return [
      { kind: "line", x1: left, x2: right, y1: row.y, y2: row.y, stroke: css(query ? colours.accent : colours.line) },
      text(name, left - 8, row.y + 4, { anchor: "end", ...(row.count > 1 || !row.used ? {} : token) }),
    ];
  });
  return [...columns, ...rows];
}

function partMarks({ trace, part }: Traced, layout: TraceLayout, colours: Palette, text: Write): Mark[] {
  const { x, y, height } = layout.bar;
  const ink = css(colours.ink);
  const lit = (parts: string[]) => !part || parts.includes(part);
  const lines = layout.lines.map((line): Mark => ({
    kind: "path",
    d: line.d,
    stroke: css(line.value < 0 ? colours.neg : colours.pos),
    thick: line.width,
    opacity: lit(line.parts) ? (line.kind === "adds" ? 0.36 : 0.85) : 0.06,
    dash: DASHES[line.kind] || undefined,
  }));
  const node = (of: TraceNode): Mark[] => {
    const small = of.share === null;
    const [r, opacity] = [small ? 3.5 : of.kind === "mlp" ? 6 : 5, small || lit([of.name]) ? 1 : 0.35];
    const shape: Mark =
      of.kind === "mlp"
        ? { kind: "rect", x: of.x - r, y: of.y - r, width: 2 * r, height: 2 * r, fill: ink, opacity }
        : { kind: "circle", x: of.x, y: of.y, r, fill: ink, opacity };
    const name = `${writerName(of.name)}${small ? "" : ` ${signed(of.share!)}`}`;
    const place = small ? ([of.x, of.y - 8] as const) : ([of.x + 9, of.y - 7] as const);
    return [shape, text(name, ...place, { anchor: small ? "middle" : "start", fill: ink, bold: true })];
  };
  return [
    ...lines,
    ...layout.nodes.flatMap(node),
    { kind: "rect", x, y, width: 7, height, fill: css(colours.pos) },
    text(visible(trace.token.text).slice(0, 11), x + 14, y + 20, { face: "serif", size: 20, fill: ink }),
    text(`${percent(trace.token.probability)} %`, x + 14, y + 40, { fill: ink }),
    text(plain(trace.total), x + 14, y + 57),
  ];
}

/** A mark further down. The trace's lines are made of M, L, H, V, C and Q, all absolute. */
export function lower(mark: Mark, by: number): Mark {
  if (mark.kind === "line") return { ...mark, y1: mark.y1 + by, y2: mark.y2 + by };
  if (mark.kind !== "path") return { ...mark, y: mark.y + by };
  const d = mark.d.replace(/([MLHVCQ])([^A-Z]*)/g, (_, letter: string, numbers: string) => {
    const moved = (numbers.match(/-?[\d.]+(?:e-?\d+)?/g) ?? []).map((each, k) => {
      const down = letter === "V" || (letter !== "H" && k % 2 === 1);
      return Math.round((Number(each) + (down ? by : 0)) * 100) / 100;
    });
    return `${letter}${moved.join(" ")}`;
  });
  return { ...mark, d };
}

function legend(y: number, colours: Palette, text: Write): Mark[] {
  const say = words.trace;
  const kinds: [LineKind, string, number][] = [
    ["adds", say.adds, 7],
    ["value", say.carries, 3],
    ["key", say.found, 3],
    ["query", say.asks, 2],
  ];
  return kinds.flatMap(([kind, name, thick], k): Mark[] => [
    {
      kind: "path",
      d: `M${k * 220} ${y}H${k * 220 + 26}`,
      stroke: css(colours.pos),
      thick,
      opacity: kind === "adds" ? 0.36 : 1,
      dash: DASHES[kind] || undefined,
    },
    text(name, k * 220 + 32, y + 4, { size: 11 }),
  ]);
}

function footOf(trace: Trace): string[] {
  const { count, up, down } = trace.left_out;
  const rests = trace.steps.filter((step) => step.rests).map((step) => `${step.name} (${signed(step.share)})`);
  return [
    words.trace.leftOutLine(count, signed(up + down), signed(up), signed(down)),
    ...(rests.length ? [words.trace.restsList(rests.join(", "))] : []),
  ];
}

const lineRow = (trace: Trace) => (line: TraceLine) => {
  const say = words.trace;
  const { writer, head, total } = line.says;
  const kind = { adds: say.adds, value: say.carries, key: say.found, query: say.asks }[line.kind];
  const { logit, score, weight } = say.units;
  // what a writer of a key had read is known by its weight alone
  const unit = line.kind === "adds" ? logit : line.kind === "value" ? (total === 0 ? weight : logit) : score;
  const from = line.kind === "value" ? visible(writer) : writerName(writer);
  return [from, line.kind === "adds" ? visible(trace.token.text) : head, kind, line.value, unit];
};
