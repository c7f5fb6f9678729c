// Logit attribution and next-token probabilities as pictures to save.
import { css, signedColour, type Palette } from "../../draw/colour";
import { strongest } from "../../draw/number-strip";
import type { Attribution, Prediction } from "../../source/source";
import type { Microscope } from "../state/microscope.svelte";
import { percent, signed, siteTitle, visible } from "../../format";
import type { Mark, Picture } from "../../save/picture";
import { words } from "../../words/words";

const ROW = 18;
const largest = (values: Float32Array) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12);

function strip(values: Float32Array, x: number, y: number, width: number, top: number, colours: Palette): Mark[] {
  const cells = strongest(values, Math.floor(width / 2));
  const unit = width / cells.length;
  const half = (ROW - 4) / 2; // positive above, negative below, as on the page: the sign shows without colour
  return cells.map((value, k): Mark => ({
    kind: "rect",
    x: x + k * unit,
    y: value < 0 ? y + half : y,
    width: unit + 0.2,
    height: half,
    fill: css(signedColour(colours, value / top)),
  }));
}

export function attributionPicture(
  scope: Microscope,
  attribution: Attribution,
  first: number,
  colours: Palette,
): Picture {
  const say = words.prediction.picture;
  const n = scope.model!.sites.find((site) => site.name === attribution.site)!.n_heads;
  const part = (values: Float32Array, row: number) =>
    values.subarray((row * values.length) / n, ((row + 1) * values.length) / n);
  const share = (row: number) => attribution.logits[first + row];
  const topShare = Math.max(0.3, ...Array.from({ length: n }, (_, row) => Math.abs(share(row)) || 0));
  const whose = [attribution.toward, attribution.minus]
    .flatMap((token) => (token ? [visible(token.text)] : []))
    .join(" − ");
  const [delivers, parts, bar] = [90, 320, 660];
  const [topDelivered, topPart] = [
    largest(attribution.z),
    Math.max(largest(attribution.headOutputs), largest(attribution.output)),
  ];
  const text = (text: string, x: number, y: number, anchor: "start" | "end" = "start"): Mark => ({
    kind: "text",
    text,
    x,
    y,
    anchor,
    size: 11,
    fill: css(colours.ink2),
  });
  const marks = Array.from({ length: n }, (_, row) => {
    const y = 22 + row * ROW;
    const length = ((share(row) || 0) / topShare) * 80;
    return [
      text(scope.heads[first + row].name, 0, y + 11),
      ...strip(part(attribution.z, row), delivers, y, 210, topDelivered, colours),
      ...strip(part(attribution.headOutputs, row), parts, y, 300, topPart, colours),
      {
        kind: "rect",
        x: bar + Math.min(0, length),
        y,
        width: Math.abs(length),
        height: ROW - 6,
        fill: css(length < 0 ? colours.neg : colours.pos),
      } as Mark,
      text(attribution.toward ? signed(share(row)) : "", bar + 130, y + 11, "end"),
    ];
  }).flat();
  const foot = 30 + n * ROW;
  marks.push(
    { kind: "line", x1: 0, x2: bar + 130, y1: foot - 5, y2: foot - 5, stroke: css(colours.ink3) },
    text(words.prediction.attribution.all, 0, foot + 11),
  );
  marks.push(
    ...strip(attribution.z, delivers, foot, 210, topDelivered, colours),
    ...strip(attribution.output, parts, foot, 300, topPart, colours),
  );
  marks.push(
    text("z", delivers, 10),
    text(say.through, parts, 10),
    text(attribution.toward ? say.toward(whose) : "", bar, 10),
  );
  const token = visible(scope.tokens[attribution.position].text);
  return {
    file: `mix-${attribution.site}-${attribution.position}`,
    title: say.attribution(scope.model!.title, siteTitle(attribution.site), token),
    width: bar + 132,
    height: foot + ROW,
    marks,
    table: {
      columns: [
        say.head,
        whose ? say.shareOf(whose) : say.share,
        ...Array.from({ length: attribution.z.length / n }, (_, k) => say.delivered(k)),
      ],
      rows: Array.from({ length: n }, (_, row) => [
        scope.heads[first + row].name,
        share(row),
        ...part(attribution.z, row),
      ]),
    },
  };
}

export function nextTokenPicture(
  scope: Microscope,
  found: Prediction,
  x: (p: number) => number,
  axis: number,
  colours: Palette,
): Picture {
  const say = words.prediction.picture;
  const left = 110;
  const marks = found.guesses.flatMap((guess, k): Mark[] => {
    const y = k * 24 + 12;
    const [before, after] = [left + x(guess.probability), found.without ? left + x(found.without[k]) : NaN];
    const number = (value: number, at: number): Mark => ({
      kind: "text",
      text: percent(value),
      x: left + axis + at,
      y: y + 4,
      anchor: "end",
      fill: css(colours.ink),
    });
    return [
      { kind: "text", text: visible(guess.text), x: 0, y: y + 4, face: "serif", size: 14, fill: css(colours.ink) },
      { kind: "line", x1: left, x2: left + axis, y1: y, y2: y, stroke: css(colours.line) },
      ...(found.without
        ? ([
            { kind: "line", x1: before, x2: after, y1: y, y2: y, stroke: css(colours.ink), thick: 1.5 },
            { kind: "circle", x: after, y, r: 4, fill: css(colours.paper), stroke: css(colours.ink), thick: 1.5 },
          ] as Mark[])
        : []),
      { kind: "circle", x: before, y, r: 3.5, fill: css(colours.ink) },
      number(guess.probability, 50),
      ...(found.without ? [number(found.without[k], 100)] : []),
    ];
  });
  const edits = [
    ...found.off.map(words.prediction.edits.isOff),
    ...(found.cuts ?? []).map((edge) => say.cut(edge.head, edge.query, edge.key)),
  ];
  return {
    file: `next-token-${found.position}`,
    title: say.next(scope.model!.title, visible(scope.tokens[scope.token].text)),
    note: edits.length ? say.note(edits.join(", "), String(found.kl?.toFixed(4))) : undefined,
    width: left + axis + 102,
    height: found.guesses.length * 24,
    marks,
    table: {
      columns: say.columns,
      rows: found.guesses.map((guess, k) => [
        guess.text,
        guess.id,
        guess.probability,
        found.without?.[k] ?? "",
        found.sampled?.probabilities[k] ?? "",
      ]),
    },
  };
}
