// One arrow explained, as a picture to save: the sentence, two columns of writers, their pairs, and the cut path.
import { css, type Palette } from "../../draw/colour";
import { count, short, signed, visible } from "../../format";
import { spans } from "../../learn/markdown";
import type { Anchor, Mark, Picture } from "../../save/picture";
import type { CutPath, Why, WriterShare } from "../../source/source";
import { words } from "../../words/words";
import { cutLines, cutPlace } from "./cut-lines";
import type { Pin } from "./explain-address";
import { firstRows, others, pairsOf, type Pairs, type Rows } from "./pairs";
import { firstSentence, plain, secondSentence, writerName } from "./why-sentence";

export interface Explained {
  model: string;
  why: Why;
  baseline: string; // what the score is relative to
  most: number; // writers of each side
  pin: Pin | null;
  cut: CutPath | null;
}

const WIDTH = 760;
const COLUMN = 276;
const BAR = 54;
const HIGH = 22;
const LETTERS = 124; // that fit into a line

/** A sentence without the marks of its names and tokens. */
export const unmarked = (text: string) =>
  spans(text)
    .map((span) => span.text)
    .join("");

/** A text in lines of at most so many letters. */
export function wrap(text: string, letters: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ").filter(Boolean)) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > letters) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

type Write = (text: string, x: number, y: number, more?: { anchor?: Anchor; bold?: boolean; quiet?: boolean }) => Mark;

const writer =
  (colours: Palette): Write =>
  (text, x, y, { anchor = "start", bold = false, quiet = false } = {}) => ({
    kind: "text",
    text,
    x,
    y,
    anchor,
    bold,
    size: 12,
    fill: css(quiet ? colours.ink3 : colours.ink),
  });

export function whyPicture(shown: Explained, colours: Palette): Picture {
  const { why, cut } = shown;
  const write = writer(colours);
  const sentences = [firstSentence(why), secondSentence(why)].map(unmarked);
  const said = sentences.flatMap((text) => wrap(text, LETTERS));
  const below = why.baseline < 0 ? `(${plain(why.baseline)})` : plain(why.baseline);
  said.push(`${words.why.score} ${plain(why.score)} − ${shown.baseline} ${below} = ${plain(why.total)}`);
  const marks = said.map((text, k) => write(text, 0, 12 + k * 18, { quiet: k === said.length - 1 }));
  const columns = writerColumns(shown, 12 + said.length * 18, write, colours);
  marks.push(...columns.marks);
  let height = columns.bottom;
  if (cut) {
    const table = cutTable(cut, why, height + 20, write);
    marks.push(...table);
    height += 20 + (table.length / 4) * 18 + 18;
  }
  const [query, key] = [visible(why.query.token), visible(why.key.token)];
  return {
    file: `why-${why.head}-${why.query.position}-${why.key.position}`,
    title: words.why.picture(shown.model, why.head, query, key),
    note: sentences.join(" "),
    width: WIDTH,
    height,
    marks,
    table: { columns: words.why.table, rows: tableRows(why) },
  };
}

interface Grid {
  rows: Rows;
  pairs: Pairs;
  from: number;
  top: number; // of the first row
  foot: number;
  y: (row: number) => number;
}

function writerColumns(shown: Explained, from: number, write: Write, colours: Palette) {
  const { why } = shown;
  const rows = firstRows(why, shown.most);
  const pairs = pairsOf(why, rows);
  const top = from + 40;
  const foot = top + Math.max(rows.q.length, rows.k.length) * HIGH + 15;
  const grid: Grid = { rows, pairs, from, top, foot, y: (row) => top + row * HIGH + HIGH / 2 };
  const marks = [
    ...pairMarks(why, grid, write, colours),
    ...(["q", "k"] as const).flatMap((side) => sideMarks(shown, side, grid, write, colours)),
  ];
  return { marks, bottom: foot + Math.max(3, footOf(why, rows, "k").length) * 18 };
}

function pairMarks(why: Why, { pairs, y, foot }: Grid, write: Write, colours: Palette): Mark[] {
  const lines = pairs.drawn.toReversed().map(({ a, b, value }): Mark => ({
    kind: "path",
    d: `M${COLUMN + 3} ${y(a)}C${WIDTH / 2} ${y(a)} ${WIDTH / 2} ${y(b)} ${WIDTH - COLUMN - 3} ${y(b)}`,
    stroke: css(value < 0 ? colours.neg : colours.pos),
    thick: Math.max(0.6, (Math.abs(value) / pairs.largest) * 16),
    opacity: 0.72,
  }));
  const sums = [
    words.why.pairs(pairs.drawn.length, plain(pairs.sum)),
    words.why.morePairs(count(why.pairs_count - pairs.drawn.length), signed(why.pairs_sum - pairs.sum)),
    ...(pairs.cancel ? [words.why.cancel] : []),
  ];
  return [...lines, ...sums.map((text, k) => write(text, WIDTH / 2, foot + k * 15, { anchor: "middle", quiet: true }))];
}

/** One column. The right one is the left one mirrored. */
function sideMarks({ why, pin }: Explained, side: Pin["side"], grid: Grid, write: Write, colours: Palette): Mark[] {
  const at = (x: number) => (side === "q" ? x : WIDTH - x);
  const [outer, inner]: Anchor[] = side === "q" ? ["start", "end"] : ["end", "start"];
  const { rows, pairs, from, top, foot, y } = grid;
  const place = visible((side === "q" ? why.query : why.key).token);
  const number = COLUMN - BAR - 6;
  const writers = rows[side].flatMap((share, row): Mark[] => {
    const bold = pin?.side === side && pin.name === share.name;
    const width = Math.max(1, (Math.abs(share.value) / pairs.largest) * (BAR - 4));
    const x = side === "q" ? COLUMN - width : WIDTH - COLUMN;
    return [
      write(writerName(share.name), at(0), y(row) + 4, { anchor: outer, bold }),
      write(readOf(share), at(76), y(row) + 4, { anchor: outer, quiet: true }),
      write(signed(share.value), at(number), y(row) + 4, { anchor: inner, bold }),
      { kind: "rect", x, y: y(row) - 4.5, width, height: 9, fill: css(share.value < 0 ? colours.neg : colours.pos) },
    ];
  });
  const below = footOf(why, rows, side).flatMap(([name, value], k) => [
    write(name, at(0), foot + k * 18, { anchor: outer, quiet: true }),
    write(value, at(number), foot + k * 18, { anchor: inner, quiet: true }),
  ]);
  return [
    write(side === "q" ? words.why.whoAsked : words.why.whoAnswered, at(0), from + 14, { anchor: outer, bold: true }),
    write(`${words.why.at} ${place}`, at(0), from + 31, { anchor: outer, quiet: true }),
    { kind: "line", x1: at(0), x2: at(COLUMN), y1: top - 3, y2: top - 3, stroke: css(colours.line) },
    ...writers,
    ...below,
  ];
}

/** What a head read, where a writer is one. */
function readOf({ read }: WriterShare): string {
  return read ? `${words.why.read} ${visible(read.place.token).slice(0, 9)} ${short(read.weight)}` : "";
}

/** Below a column: the writers that are not shown, the terms that are no pair, and the sum of all. */
function footOf(why: Why, rows: Rows, side: "q" | "k"): [string, string][] {
  const left = others(why, rows, side);
  return [
    [left.count ? words.why.restOf(left.count) : "", left.count ? signed(left.sum) : ""],
    ...termsOf(why).map(([name, value]): [string, string] => [name, signed(value)]),
    [words.why.all, plain(why.total)],
  ];
}

const termsOf = (why: Why) =>
  Object.entries(why.terms).map(([name, value]): [string, number] => [
    name === "distance" ? words.why.distance : words.why.cap,
    value,
  ]);

/** As it is, predicted and true, side by side: four texts per line. */
function cutTable(cut: CutPath, why: Why, top: number, write: Write): Mark[] {
  const say = words.why;
  const place = unmarked(cutPlace(cut, why.query.token, why.key.token));
  const path = `${say.cutTitle}: ${writerName(cut.writer)} → ${cut.reader}, ${place}`;
  const lines = cutLines(cut, why.key.token).map(({ label, values, say: number }) =>
    [unmarked(label)].concat([values.as_is, values.predicted, values.true].map(number)),
  );
  return [[path, say.asIs, say.predicted, say.truth], ...lines].flatMap((line, row) =>
    line.map((text, k) =>
      write(text, k === 0 ? 0 : WIDTH - (3 - k) * 96, top + row * 18, {
        anchor: k === 0 ? "start" : "end",
        bold: row === 0 ? k === 0 : k === 3,
        quiet: row === 0 && k > 0,
      }),
    ),
  );
}

function tableRows(why: Why): (string | number)[][] {
  const of = (side: string, shares: WriterShare[]) => [
    ...shares.map(({ name, value, read }) => [
      side,
      writerName(name),
      value,
      read ? visible(read.place.token) : "",
      read?.weight ?? "",
    ]),
    ...termsOf(why).map(([name, value]) => [side, name, value, "", ""]),
  ];
  return [...of(words.why.whoAsked, why.asked), ...of(words.why.whoAnswered, why.answered)];
}
