// The small figures of the glossary, as marks in a box of 220 × 84.
import { short } from "../format";
import type { words } from "../words/words";

export type TermKey = keyof (typeof words)["glossary"]["terms"];

export type Mark =
  | { kind: "rect"; x: number; y: number; width: number; height: number; fill: string; edge?: string }
  | { kind: "line"; x1: number; y1: number; x2: number; y2: number; stroke: string; wide?: number; dashed?: boolean }
  | { kind: "circle"; x: number; y: number; r: number; fill: string; edge?: string }
  | { kind: "path"; d: string; stroke: string; wide: number }
  | {
      kind: "text";
      x: number;
      y: number;
      text: string;
      fill: string;
      serif?: boolean;
      anchor?: "start" | "middle" | "end";
    };

export const WIDTH = 220;
export const HEIGHT = 84;

const INK = "var(--ink)";
const SOFT = "var(--ink-3)";
const LINE = "var(--line-2)";
const ACCENT = "var(--accent)";

const weightFill = (weight: number) => `var(--w${Math.round(Math.sqrt(weight) * 8)})`;
const text = (x: number, y: number, said: string, more: Partial<Extract<Mark, { kind: "text" }>> = {}): Mark => ({
  kind: "text",
  x,
  y,
  text: said,
  fill: INK,
  ...more,
});
const word = (x: number, y: number, said: string, more: Partial<Extract<Mark, { kind: "text" }>> = {}): Mark =>
  text(x, y, said, { serif: true, ...more });
const line = (x1: number, y1: number, x2: number, y2: number, stroke = LINE, wide = 1, dashed = false): Mark => ({
  kind: "line",
  x1,
  y1,
  x2,
  y2,
  stroke,
  wide,
  dashed,
});
const rect = (x: number, y: number, width: number, height: number, fill: string, edge?: string): Mark => ({
  kind: "rect",
  x,
  y,
  width,
  height,
  fill,
  edge,
});

/** Signed numbers as bars on a line: up is positive, down is negative, so that the sign shows without colour. */
function strip(x: number, y: number, values: number[], step = 14): Mark[] {
  return [
    line(x - 2, y, x + values.length * step, y),
    ...values.map((value, at) =>
      rect(
        x + at * step,
        value > 0 ? y - value * 11 : y,
        step - 3,
        Math.max(1, Math.abs(value) * 11),
        value < 0 ? "var(--neg)" : "var(--pos)",
      ),
    ),
  ];
}

function bars(x: number, base: number, heights: number[], labels: string[], step: number, fill?: string): Mark[] {
  return heights.flatMap((height, at) => [
    rect(x + at * step, base - height * 54, step - 8, Math.max(1, height * 54), fill ?? weightFill(height)),
    text(x + at * step + (step - 8) / 2, base + 13, labels[at] ?? "", { fill: SOFT, anchor: "middle" }),
  ]);
}

/** Arrows from one point; the first is the selected token's. */
function arrows(ends: [number, number][], labels: string[], accent: number): Mark[] {
  return ends.flatMap(([x, y], at): Mark[] => {
    const stroke = at === accent ? ACCENT : INK;
    return [
      line(90, 62, x, y, stroke, 2),
      { kind: "circle", x, y, r: 3.5, fill: stroke },
      word(x + (x < 90 ? -8 : 8), y + 4, labels[at], { fill: stroke, anchor: x < 90 ? "end" : "start" }),
    ];
  });
}

function table(shown: (row: number, column: number) => number | null, size = 4, x = 70): Mark[] {
  return Array.from({ length: size * size }, (_, at): Mark => {
    const [row, column] = [Math.floor(at / size), at % size];
    const weight = shown(row, column);
    return rect(
      x + column * 17,
      8 + row * 17,
      16,
      16,
      weight === null ? "none" : weightFill(weight),
      weight === null ? LINE : undefined,
    );
  });
}

const numbered = (labels: string[], x = 70): Mark[] =>
  labels.map((label, at) => text(x - 8, 20 + at * 17, label, { fill: SOFT, anchor: "end" }));
const TRIANGLE = [[1], [0.3, 0.7], [0.6, 0.1, 0.3], [0.2, 0.5, 0.1, 0.2]];
const SQUARE = [
  [0.2, 0.5, 0.2, 0.1],
  [0.6, 0.1, 0.1, 0.2],
  [0.1, 0.3, 0.2, 0.4],
  [0.2, 0.3, 0.4, 0.1],
];

function dumbbells(labels: string[]): Mark[] {
  const before = [0.9, 0.45, 0.2];
  const after = [0.3, 0.6, 0.35];
  return labels.flatMap((label, at): Mark[] => {
    const y = 18 + at * 24;
    return [
      word(0, y + 4, label),
      line(60 + before[at] * 140, y, 60 + after[at] * 140, y, INK, 1.5),
      { kind: "circle", x: 60 + before[at] * 140, y, r: 4, fill: INK },
      { kind: "circle", x: 60 + after[at] * 140, y, r: 4, fill: "var(--paper)", edge: INK },
    ];
  });
}

const arc = (from: number, to: number, y: number, wide: number): Mark => ({
  kind: "path",
  d: `M${from} ${y}Q${(from + to) / 2} ${y - Math.abs(from - to) * 0.55} ${to} ${y}`,
  stroke: ACCENT,
  wide,
});

export const FIGURES: Record<TermKey, (labels: string[]) => Mark[]> = {
  token: ([first, second]) => [
    rect(20, 20, 76, 28, "var(--hover)"),
    rect(100, 20, 56, 28, "var(--hover)"),
    word(58, 39, first, { anchor: "middle" }),
    word(128, 39, second, { anchor: "middle" }),
    text(58, 66, "9168", { fill: SOFT, anchor: "middle" }),
    text(128, 66, "1108", { fill: SOFT, anchor: "middle" }),
  ],
  vector: (labels) =>
    [
      [0.8, -0.4, 0.2, 0.9, -0.6, 0.3],
      [0.7, -0.5, 0.3, 0.8, -0.5, 0.4],
      [-0.6, 0.7, -0.8, 0.1, 0.5, -0.3],
    ].flatMap((values, at) => [word(0, 20 + at * 27, labels[at]), ...strip(70, 16 + at * 27, values, 18)]),
  query: (labels) =>
    arrows(
      [
        [150, 14],
        [152, 36],
        [40, 20],
      ],
      labels,
      0,
    ),
  key: (labels) =>
    arrows(
      [
        [152, 36],
        [40, 20],
        [130, 80],
      ],
      labels,
      -1,
    ),
  value: (labels) =>
    [
      [0.64, -0.32, 0.16, 0.72],
      [-0.12, 0.14, 0.18, -0.1],
      [0.52, -0.18, 0.34, 0.62],
    ].flatMap((values, at) => [
      ...(at === 2 ? [line(0, 57, 160, 57, SOFT)] : []),
      word(0, 20 + at * 27, labels[at]),
      ...strip(92, 17 + at * 27, values, 18),
    ]),
  score: ([query, key, sum]) => [
    ...[query, key].flatMap((label, row) => [
      text(0, 24 + row * 26, label, { fill: SOFT }),
      ...[
        ["1", "−.5", "2"],
        [".6", ".4", ".85"],
      ][row].map((number, at) => text(80 + at * 36, 24 + row * 26, number, { anchor: "middle" })),
    ]),
    line(56, 58, 176, 58, SOFT),
    text(116, 76, `.6 − .2 + 1.7 = ${sum}`, { anchor: "middle" }),
  ],
  softmax: (labels) => [
    ...bars(0, 66, [1, 0.5, 0.03], labels.slice(0, 3), 28, "var(--quiet)"),
    line(96, 40, 116, 40, INK),
    { kind: "path", d: "M112 36l4 4l-4 4", stroke: INK, wide: 1 },
    ...bars(134, 66, [0.665, 0.245, 0.09], labels.slice(3), 28),
  ],
  weight: (labels) =>
    [0.1, 0.6, 0.1, 0.2].flatMap((share, at): Mark[] => [
      word(at * 56 + 24, 14, labels[at], { anchor: "middle" }),
      line(at * 56 + 2, 20, at * 56 + 46, 20),
      rect(at * 56 + 8, 20, 32, share * 60, weightFill(share)),
      text(at * 56 + 24, 34 + share * 60, String(share).slice(1), { fill: SOFT, anchor: "middle" }),
    ]),
  head: ([first, second, reader]) => [
    word(30, 78, first, { anchor: "middle" }),
    word(182, 78, second, { anchor: "middle" }),
    word(110, 78, reader, { fill: ACCENT, anchor: "middle" }),
    arc(110, 30, 62, 6),
    arc(110, 182, 62, 1.5),
  ],
  pattern: ([reads, read]) => [
    ...table((row, column) => TRIANGLE[row][column] ?? null),
    text(62, 44, reads, { fill: SOFT, anchor: "end" }),
    text(104, 84, read, { fill: SOFT, anchor: "middle" }),
  ],
  causal: (labels) => [...table((row, column) => TRIANGLE[row][column] ?? null), ...numbered(labels)],
  encoder: (labels) => [...table((row, column) => SQUARE[row][column]), ...numbered(labels)],
  logit: (labels) =>
    [
      [3, 0.72],
      [2, 0.27],
      [-1, 0.01],
    ].flatMap(([logit, share], at) => [
      word(0, 20 + at * 25, labels[at]),
      line(92, 6 + at * 25, 92, 26 + at * 25),
      rect(
        logit < 0 ? 92 + logit * 14 : 92,
        11 + at * 25,
        Math.abs(logit) * 14,
        10,
        logit < 0 ? "var(--neg)" : "var(--pos)",
      ),
      text(160, 20 + at * 25, logit < 0 ? `−${-logit}` : String(logit), { anchor: "end" }),
      text(200, 20 + at * 25, short(share), { fill: SOFT, anchor: "end" }),
    ]),
  attribution: (labels) =>
    [2, 1, -1, 2].flatMap((part, at) => [
      ...(at === 3 ? [line(40, 62, 190, 62, SOFT)] : []),
      rect(
        part < 0 ? 110 + part * 30 : 110,
        6 + at * 20 + (at === 3 ? 2 : 0),
        Math.abs(part) * 30,
        10,
        part < 0 ? "var(--neg)" : "var(--pos)",
      ),
      text(36, 15 + at * 20 + (at === 3 ? 2 : 0), labels[at], { anchor: "end" }),
    ]),
  entropy: (labels) => [
    ...[1, 0.02, 0.02, 0.02].map((share, at) =>
      rect(6 + at * 20, 60 - share * 54, 14, Math.max(1, share * 54), weightFill(share)),
    ),
    text(42, 78, labels[0], { anchor: "middle" }),
    ...[0.25, 0.25, 0.25, 0.25].map((share, at) =>
      rect(126 + at * 20, 60 - share * 54, 14, share * 54, weightFill(share)),
    ),
    text(162, 78, labels[1], { anchor: "middle" }),
  ],
  nats: (labels) =>
    [0.69, 2.3, 4.6].flatMap((nats, at) => [
      text(40, 20 + at * 25, labels[at], { anchor: "end" }),
      rect(52, 10 + at * 25, nats * 26, 12, "var(--quiet)"),
      text(58 + nats * 26, 20 + at * 25, labels[at + 3], { fill: SOFT }),
    ]),
  kl: dumbbells,
  residual: ([attention, mlp]) => [
    line(4, 60, 214, 60, INK, 2),
    { kind: "path", d: "M209 55l6 5l-6 5", stroke: INK, wide: 1.5 },
    ...[
      [34, attention],
      [126, mlp],
    ].flatMap(([from, label]): Mark[] => {
      const x = Number(from);
      return [
        { kind: "path", d: `M${x} 60v-26h10M${x + 58} 34h10v18`, stroke: SOFT, wide: 1 },
        rect(x + 4, 18, 60, 24, "var(--paper)", LINE),
        text(x + 34, 34, String(label), { anchor: "middle" }),
        { kind: "circle", x: x + 68, y: 60, r: 7, fill: "var(--paper)", edge: INK },
        text(x + 68, 64, "+", { anchor: "middle" }),
      ];
    }),
  ],
  layer: (labels) =>
    labels.flatMap((label, row) => [
      text(24, 22 + row * 26, label, { fill: SOFT, anchor: "end" }),
      ...[0, 1, 2, 3].map((head) => rect(40 + head * 40, 8 + row * 26, 32, 18, "var(--hover)", LINE)),
    ]),
  zeroAblation: ([as, off]) => [
    text(0, 30, as, { fill: SOFT }),
    ...strip(60, 26, [0.7, -0.5, 0.9, -0.2, 0.4, 0.8], 20),
    text(0, 68, off, { fill: SOFT }),
    line(58, 64, 180, 64),
    ...[0, 1, 2, 3, 4, 5].map((at) => text(68 + at * 20, 60, "0", { anchor: "middle" })),
  ],
  meanAblation: ([as, mean]) => [
    text(0, 30, as, { fill: SOFT }),
    ...strip(60, 26, [0.7, -0.5, 0.9, -0.2, 0.4, 0.8], 20),
    text(0, 68, mean, { fill: SOFT }),
    ...strip(60, 64, [0.3, -0.2, 0.3, -0.1, 0.2, 0.3], 20),
  ],
  concatenate: ([first, second]) => [
    text(48, 12, first, { fill: SOFT, anchor: "middle" }),
    text(172, 12, second, { fill: SOFT, anchor: "middle" }),
    ...strip(18, 30, [0.8, -0.3, 0.2, -0.6], 16),
    ...strip(142, 30, [-0.2, 0.7, -0.8, 0.3], 16),
    { kind: "path", d: "M18 44v6h188v-6", stroke: LINE, wide: 1 },
    ...strip(46, 70, [0.8, -0.3, 0.2, -0.6, -0.2, 0.7, -0.8, 0.3], 16),
  ],
  outputMatrix: ([name, index]) => [
    ...strip(46, 14, [0.8, -0.3, 0.2, -0.6, -0.2, 0.7, -0.8, 0.3], 16),
    ...Array.from({ length: 48 }, (_, at): Mark[] => {
      const [x, y, negative] = [78 + (at % 8) * 8, 30 + Math.floor(at / 8) * 5, (at * 7) % 5 < 2];
      const cell = rect(x, y, 7, 4, negative ? "var(--neg)" : "var(--pos)");
      return negative ? [cell, rect(x + 1.5, y + 1.5, 4, 1, "var(--paper)")] : [cell]; // a dash, so that the sign is seen without colour
    }).flat(),
    text(152, 48, name),
    text(164, 51, index, { fill: SOFT }),
    ...strip(46, 74, [0.5, 0.4, -0.3, -0.2, 0.7, -0.6, 0.2, 0.1], 16),
  ],
  kvHead: ([query, pair]) => [
    ...[0, 1].flatMap((group): Mark[] => [
      ...[0, 1, 2, 3].flatMap((at): Mark[] => [
        { kind: "circle", x: 12 + group * 112 + at * 22, y: 24, r: 5, fill: INK },
        line(12 + group * 112 + at * 22, 30, 45 + group * 112, 56, SOFT),
      ]),
      rect(36 + group * 112, 56, 18, 10, "var(--quiet)"),
    ]),
    text(110, 12, query, { fill: SOFT, anchor: "middle" }),
    text(110, 82, pair, { fill: SOFT, anchor: "middle" }),
  ],
  induction: (labels) => [
    ...labels.map((label, at) => word(24 + at * 56, 70, label, { anchor: "middle", fill: at === 3 ? ACCENT : INK })),
    arc(192, 80, 54, 5),
  ],
};
