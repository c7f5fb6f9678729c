// The worked example as a picture to save: weights, values, head outputs, concatenated and through W_O.
import { css, weightColour } from "../draw/colour";
import type { Mark, Picture } from "../save/picture";
import { theme } from "../ui/theme.svelte";
import type { Worked } from "./by-hand.svelte";
import { shortNumber } from "./scorecard";
import { words as catalogue } from "../words/words";

const [LINE, BLOCK] = [22, 420];

export function picture(card: Worked): Picture {
  const ink = css(theme.colours.ink);
  const words = Object.keys(card.values);
  const text = (x: number, y: number, said: string, more: object = {}): Mark => ({
    kind: "text",
    x,
    y,
    text: said,
    fill: ink,
    size: 13,
    ...more,
  });
  const vector = (values: number[]) => `(${values.map((value) => shortNumber(value)).join("  ")})`;
  const heads = card.heads.flatMap((head, index): Mark[] => [
    text(index * BLOCK, 12, `${catalogue.byHand.head(index + 1)}: ${head.asks}`, { bold: true }),
    ...words.flatMap((word, row): Mark[] => {
      const y = 24 + row * LINE;
      const share = head.scorecard[word];
      return [
        text(index * BLOCK, y + 14, word, { face: "serif" }),
        {
          kind: "rect",
          x: index * BLOCK + 70,
          y: y + 4,
          width: Math.max(1, share * 120),
          height: 12,
          fill: css(weightColour(theme.colours, Math.max(share, 0.12))),
        },
        text(index * BLOCK + 200, y + 14, shortNumber(share)),
        text(index * BLOCK + 240, y + 14, `× ${vector(card.values[word])}`),
      ];
    }),
    text(index * BLOCK, 40 + words.length * LINE + 14, `o${index + 1} = ${vector(card.work[index].delivered)}`, {
      bold: true,
    }),
  ]);
  const below = 40 + words.length * LINE + 14;
  return {
    file: "by-hand",
    title: catalogue.byHand.pictureTitle(card.reader, card.sentence),
    note: card.steps.map((step) => `${step.title}: ${step.lines.join("; ")}`).join(". "),
    width: BLOCK * card.heads.length,
    height: below + 60,
    marks: [
      ...heads,
      text(0, below + 30, catalogue.byHand.pictureJoined(vector(card.concatenated))),
      text(0, below + 52, catalogue.byHand.pictureMixed(vector(card.mixed))),
    ],
    table: {
      columns: [
        "head",
        "word",
        "share",
        ...card.values[words[0]].map((_, at) => `value ${at + 1}`),
        ...card.values[words[0]].map((_, at) => `share × value ${at + 1}`),
      ],
      rows: card.work.flatMap((work, index) =>
        words.map((word) => [
          index + 1,
          word,
          card.heads[index].scorecard[word],
          ...card.values[word],
          ...work.products[word].map((value) => Number(value.toPrecision(6))),
        ]),
      ),
    },
  };
}
