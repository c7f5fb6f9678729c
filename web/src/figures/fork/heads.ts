// Steps 1 to 4: a query meets keys, a weighted average, two heads, and their outputs joined.
import { fixed } from "../../format";
import { words } from "../../words/words";
import { colour, symbol, type Pen } from "./pen";

const HEADS = [0, 1];
const middle = { anchor: "middle" } as const;

/** The query and one word's key; the shadow of the key on the query is the score. */
function dial(pen: Pen, word: number, x: number, y: number): void {
  const { fork, wide } = pen;
  const head = fork.asking;
  const unit = wide ? 50 : 24;
  const [query, key] = [fork.drawn.queries[head], fork.drawn.keys[head][word]];
  const length = query[0] ** 2 + query[1] ** 2 || 1;
  const along = (query[0] * key[0] + query[1] * key[1]) / length;
  const at = ([a, b]: number[]) => [x + a * unit, y - b * unit];
  const [q, k, shadow] = [at(query), at(key), at(query.map((value) => value * along))];
  const reach = wide ? 78 : 36;
  pen.line(`across:${word}`, x - reach, y, x + reach, y, { stroke: "var(--line)" });
  pen.line(`up:${word}`, x, y - reach * 0.9, x, y + reach * 0.9, { stroke: "var(--line)" });
  pen.line(`shadow:${word}`, x, y, shadow[0], shadow[1], { stroke: "var(--quiet)", thick: wide ? 9 : 6, s: "k" });
  pen.line(`fall:${word}`, k[0], k[1], shadow[0], shadow[1], { stroke: "var(--ink-3)", dash: "2 3", s: "k" });
  const tips = [
    {
      name: "k",
      tip: k,
      vector: key,
      ink: "var(--ink)",
      kind: "w symbol halo",
      says: words.fork.key(fork.names[word]),
    },
    { name: "q", tip: q, vector: query, ink: "var(--accent)", kind: "w token symbol halo", says: words.fork.query },
  ];
  for (const { name, tip, vector, ink, kind, says } of tips) {
    pen.thread(`${name}:${word}`, "arrow", x, y, tip[0], tip[1], { stroke: ink, thick: wide ? 2.2 : 1.7, s: name });
    const turn = Math.atan2(-vector[1], vector[0]);
    if (wide) pen.text(`${name}n:${word}`, tip[0] + 12 * Math.cos(turn), tip[1] + 12 * Math.sin(turn) + 5, 16, name, { kind, s: name, ...middle }); // prettier-ignore
    const slider = {
      role: "slider",
      tabindex: name === "q" && word ? -1 : 0,
      "aria-label": says,
      "aria-valuenow": Math.round((Math.atan2(vector[1], vector[0]) * 180) / Math.PI),
      "aria-valuemin": -180,
      "aria-valuemax": 180,
      "aria-valuetext": words.fork.vector(...(vector.map((value) => fixed(value, 2)) as [string, string])),
      "data-drag": `${name}:${head}:${word}`,
      "data-full": unit,
    };
    pen.circle(`tip:${name}:${word}`, tip[0], tip[1], wide ? 11 : 13, { kind: "handle", fill: "transparent" }, slider);
  }
}

/** Start: one head or two, whose shares are set by hand, and the points they end at. */
export function begin(pen: Pen): void {
  const { fork, wide, width } = pen;
  const { shares } = fork.drawn;
  const said = words.start;
  const two = shares.length > 1;
  const spots = pen.sentence(0, wide ? 38 : 20, wide ? 39 : 21);
  const end = spots.at(-1)!.x + spots.at(-1)!.width;
  const thick = wide ? 0 : two ? 66 : 44;
  const top = wide ? 226 : spots.at(-1)!.y + 30 + thick * fork.names.length;
  fork.names.forEach((name, word) => {
    const spot = pen.spot(spots, name);
    const y = spots.at(-1)!.y + 16 + word * thick;
    if (wide) pen.line(`top:${word}`, spot.x, 54.5, spot.x + spot.width, 54.5, {});
    else pen.text(`name:0:${word}`, 0, y + thick / 2 + 5, 18, name, { kind: "w", s: "x" });
    shares.forEach((_, head) => {
      const bar = two ? (spot.width - 10) / 2 : spot.width - 12;
      if (wide) pen.share(head, word, two ? spot.x + head * (bar + 10) : spot.x + 6, 55, bar, 132);
      else pen.share(head, word, 88, y + (two ? 8 + head * 28 : 9), two ? 18 : 24, width - 136, 14, 1, width);
    });
  });
  const columns = (word: number) => pen.spot(spots, fork.names[word]).middle;
  shares.forEach((_, head) =>
    pen.plane(head, 0, top, wide ? end : width, wide ? 262 : 240, wide ? 20 : 17, two, wide ? columns : undefined),
  );
  pen.text("plane", 14, top + 22, 13, wide ? said.plane : said.planePhone);
  pen.height = top + 270;
  if (!wide) return;
  pen.text("divides", pen.spot(spots, fork.reader).x, 74, 13, two ? said.sharesOutTwo : said.sharesOut);
  if (fork.changed || two) return;
  const spot = pen.spot(spots, fork.names[0]);
  pen.thread("pull", "arrow", spot.x + spot.width + 12, 74, spot.x + spot.width + 12, 102, { stroke: "var(--ink-2)" });
  pen.text("pulln", spot.x + spot.width + 22, 92, 13, said.pull, { kind: "two" });
}

export function ask(pen: Pen): void {
  const { fork, wide, width } = pen;
  const said = words.fork.ask;
  const scores = fork.scores(fork.asking);
  const labels = [said.score, said.scaled, said.softmax];
  if (wide) {
    const spots = pen.sentence(0, 38, 39);
    const end = spots.at(-1)!.x + spots.at(-1)!.width;
    pen.height = 548;
    fork.names.forEach((name, word) => {
      const x = 46 + ((end - 46) * (word + 0.5)) / fork.names.length;
      pen.thread(`down:${word}`, "flow", pen.spot(spots, name).middle, 54, x, 84, { s: "k" });
      pen.text(`name:0:${word}`, x, 104, 19, name, { kind: "w", s: "x", ...middle });
      dial(pen, word, x, 188);
      pen.text(`score:${word}`, x, 284, 16, fixed(scores[word], 2), { kind: "n", s: "k", ...middle });
      pen.text(`scaled:${word}`, x, 306, 14, fixed(scores[word] / Math.SQRT2, 2), { kind: "two", s: "d", ...middle });
      pen.share(fork.asking, word, x - 36, 344, 72, 160);
    });
    labels.forEach((label, k) =>
      pen.text(`label:${k}`, 0, [284, 306, 332][k], 12, label, { s: ["k", "d", "softmax"][k] }),
    );
    pen.line("softmax", 52, 327.5, end, 327.5, { s: "softmax" });
    const x = end + 46;
    pen.thread("q", "arrow", x, 122, x + 30, 102, { stroke: "var(--accent)", thick: 2.5, s: "q" });
    pen.thread("k", "arrow", x, 178, x + 30, 160, { stroke: "var(--ink)", thick: 2, s: "k" });
    pen.line("shadow", x, 220, x + 30, 220, { stroke: "var(--quiet)", thick: 8, s: "k" });
    [said.q, said.k, said.shadow].forEach((says, k) =>
      pen.lines(`note:${k}`, x + 42, [104, 160, 218][k], 13, says, { kind: "two", s: k ? "k" : "q" }),
    );
    pen.lines("note:3", x, 332, 13, said.softmaxNote, { kind: "two", s: "softmax" });
    pen.lines("drag", x, 420, 13, said.drag, { kind: "ink" });
  } else {
    const spots = pen.sentence(0, 20, 19);
    const top = spots.at(-1)!.y + 34;
    const step = 76;
    [122, 186, 228].forEach(
      (x, k) =>
      pen.text(`label:${k}`, x, top - 8, 12, [said.both, said.scaledShort, said.softmax][k], { anchor: k < 2 ? "middle" : undefined }), // prettier-ignore
    );
    fork.names.forEach((name, word) => {
      const y = top + (word + 0.5) * step;
      if (word) pen.line(`rule:${word}`, 0, y - step / 2, width, y - step / 2, { stroke: "var(--line)" });
      pen.text(`name:0:${word}`, 0, y + 6, 18, name, { kind: "w", s: "x" });
      dial(pen, word, 118, y + 4);
      pen.text(`score:${word}`, 186, y - 2, 14, fixed(scores[word], 2), { kind: "n", s: "k", ...middle });
      pen.text(`scaled:${word}`, 186, y + 16, 12, fixed(scores[word] / Math.SQRT2, 2), {
        kind: "two",
        s: "d",
        ...middle,
      });
      pen.share(fork.asking, word, 228, y - 10, 20, width - 228 - 38, 13, 1, width);
    });
    pen.height = top + 5 * step + 4;
  }
}

export function average(pen: Pen): void {
  const { fork, wide, width } = pen;
  const said = words.fork.average;
  const values = (x: number, y: number, cell: number, full: number, thick: number) => {
    pen.stack(0, x, y, cell, full);
    pen.line("sum", x - 44, y + full + 15.5, width, y + full + 15.5, { stroke: "var(--ink)", s: "head1" });
    pen.text("o", x - 9, y + full + 51, 19, "*o*_1", { kind: "w", anchor: "end", s: "head1" });
    pen.row(0, x, y + full + 27, cell, thick, 15);
  };
  if (wide) {
    const spots = pen.sentence(0, 38, 39);
    const end = spots.at(-1)!.x + spots.at(-1)!.width;
    const [x, cell] = [end + 66, (width - end - 66) / 4];
    pen.height = 548;
    fork.names.forEach((name, word) => {
      const spot = pen.spot(spots, name);
      pen.line(`top:${word}`, spot.x, 54.5, spot.x + spot.width, 54.5, {});
      pen.share(0, word, spot.x + 6, 55, spot.width - 12, 140);
    });
    const dot = pen.plane(0, 0, 246, end, 290, 19, false, (word) => pen.spot(spots, fork.names[word]).middle);
    pen.text("plane", 14, 268, 13, said.plane, { s: "v" });
    pen.lines("values", x, 20, 13, said.values, { kind: "two", s: "v softmax" });
    values(x, 55, cell, 270, 38);
    pen.lines("output", x, 414, 13, said.output, { kind: "two", s: "head1" });
    pen.thread("same", "side", dot[0] + 12, dot[1], x - 34, 371, { stroke: colour(0), thick: 1.5, dash: "1 5", opacity: 0.8, s: "head1" }); // prettier-ignore
  } else {
    let y = pen.sentence(0, 20, 19).at(-1)!.y + 20;
    fork.names.forEach((name, word) => {
      pen.text(`name:0:${word}`, 0, y + word * 32 + 18, 18, name, { kind: "w", s: "x" });
      pen.share(0, word, 82, y + word * 32 + 3, 20, width - 82 - 44, 14, 1, width);
    });
    y += 164;
    pen.plane(0, 0, y, width, 120, 16, false);
    pen.text("plane", 0, y + 138, 12, said.valuesShort, { s: "v" });
    values(78, y + 146, (width - 78) / 4, 92, 32);
    pen.height = y + 300;
  }
}

/** Bars to the left and right of the words: one side for each head. */
export function butterfly(pen: Pen, y: number, step: number, thick: number): void {
  const middle = pen.width / 2;
  pen.fork.names.forEach((name, word) => {
    const top = y + word * step;
    pen.text(`name:0:${word}`, middle, top + thick / 2 + 5, 15, name, { kind: "w", anchor: "middle", s: "x" });
    for (const head of HEADS) pen.share(head, word, middle + (head ? 40 : -40), top, thick, middle - 80, 12, head ? 1 : -1); // prettier-ignore
  });
}

export function twoHeads(pen: Pen, joined = false): void {
  const { fork, wide, width } = pen;
  const centre = width / 2;
  const spots = pen.sentence(wide ? -1 : 0, wide ? 26 : 20, wide ? 28 : 19, true);
  const own = pen.spot(spots, fork.reader);
  const count = fork.values[0].length;
  const cells = wide ? 62 : joined ? width / (2 * count) : (width - 10) / 2 / count;
  const top = wide ? 0 : own.y + (spots.at(-1)!.y - own.y) + 42;
  const ghost = (head: number, x: number, y: number, cell: number, thick: number) => {
    for (let at = 0; joined && at < count; at++)
      pen.rect(`ghost:${head}:${at}`, x + at * cell + 0.5, y + 0.5, cell - 1, thick - 1, { stroke: colour(head), dash: "2 3", opacity: 0.8, s: symbol(head) }); // prettier-ignore
  };
  if (!wide) butterfly(pen, top + 4, 28, 18);
  for (const head of HEADS) {
    const s = symbol(head);
    const bold = `b s${head + 1}`;
    if (wide) {
      const panel = 584;
      const left = head ? width - panel : 0;
      const at = (word: number) => left + (panel * (word + 0.5)) / fork.names.length;
      const x = left + panel / 2 - 2 * cells;
      const y = joined ? 494 : 440;
      pen.thread(`fork:${head}`, "flow", own.middle, 33, left + panel / 2, 74, { stroke: colour(head), thick: 2, s: `${s} x`, from: head ? "fork:0" : undefined }); // prettier-ignore
      pen.line(`panel:${head}`, left, 75, left + panel, 75, { stroke: colour(head), thick: 2, s });
      pen.text(`head:${head}`, left, 96, 17, words.fork.head(head + 1), { kind: bold, s });
      pen.text(`asks:${head}`, left + 66, 96, 16, words.fork.asks[head], { kind: "w symbol two" });
      fork.names.forEach((name, word) => {
        pen.text(`named:${head}:${word}`, at(word), 126, 18, name, { kind: "w", anchor: "middle", s: "x" });
        pen.line(`top:${head}:${word}`, at(word) - 36, 134.5, at(word) + 36, 134.5, {});
        pen.share(head, word, at(word) - 28, 135, 56, 96, 13);
      });
      pen.plane(head, left, 268, panel, 160, 16, true, at);
      ghost(head, x, 440, cells, 38);
      pen.row(head, joined ? centre + (head ? 0 : -4 * cells) : x, y, cells, 38, 15);
      const named = joined ? centre + (head ? 1 : -1) * (4 * cells + 12) : x - 12;
      pen.text(`of:${head}`, named, y + 25, 15, words.fork.head(head + 1), { kind: bold, anchor: joined && head ? undefined : "end", s }); // prettier-ignore
      if (joined) pen.thread(`slid:${head}`, "side", head ? x - 8 : x + 4 * cells + 8, 459, centre + (head ? 2 : -2) * cells, 488, { stroke: colour(head), thick: 1.5, dash: "1 5", s: "concat" }); // prettier-ignore
    } else {
      const half = (width - 10) / 2;
      const left = head ? width - half : 0;
      const y = top + 272;
      pen.thread(`fork:${head}`, "flow", own.middle, own.y + 6, width * (head ? 0.8 : 0.2), top - 20, { stroke: colour(head), thick: 1.6, s }); // prettier-ignore
      pen.text(`head:${head}`, head ? width : 0, top - 6, 14, words.fork.head(head + 1), { kind: bold, anchor: head ? "end" : undefined, s }); // prettier-ignore
      pen.plane(head, left, top + 148, half, 110, 12, true);
      ghost(head, left, y - 4, half / count, 34);
      pen.row(head, joined ? head * centre : left, joined ? y + 50 : y - 4, cells, 34, 13);
    }
  }
  const [y, half] = wide ? [538, 4 * cells] : [top + 360, centre - 0.5];
  if (joined) {
    pen.bracket("joined", centre - half, centre + half, y, { s: "concat" });
    pen.text("joins", centre, y + 26, 15, words.fork.joins(2, count), { kind: "two", anchor: "middle", s: "concat" });
  }
  pen.height = wide ? 572 : top + (joined ? 392 : 308);
}
