// Step 5: every number of y and what each head contributes to it through W_O, at once or head by head.
import { words } from "../../words/words";
import { butterfly } from "./heads";
import { colour, exact, symbol, type Pen } from "./pen";

export function mix(pen: Pen): void {
  const { fork, wide, width } = pen;
  const said = words.fork.mix;
  const { split, column } = fork;
  const parts = [fork.part(0), fork.part(1)];
  const y = fork.y;
  const [size, count] = [fork.values[0].length, y.length];
  const cells = wide ? 62 : Math.min(60, (width - 54) / count);
  const thick = wide ? 26 : 25;
  const out = wide ? 62 : 46;
  const spots = pen.sentence(wide ? -1 : 0, wide ? 24 : 20, wide ? 26 : 19);
  let top = 140;
  if (wide)
    fork.names.forEach((name, word) => {
      const spot = pen.spot(spots, name);
      const bar = Math.min(30, (spot.width - 4) / 2);
      for (const head of [0, 1]) pen.share(head, word, spot.middle + (head ? 3 : -3 - bar), 36, bar, 62, 11);
    });
  else {
    top = spots.at(-1)!.y + 160;
    butterfly(pen, top - 146, 24, 16);
  }
  const apart = size * thick + 92;
  const left = wide ? 388 : width - count * cells; // of W_O and of y, which has one place in both arrangements
  const zero = wide ? 490 : split ? top + 2 * apart + 60 : top + 2 * size * thick + 72;
  pen.height = wide ? 572 : zero + 86;
  const up = y.map((_, at) => Math.max(0, parts[0][at]) + Math.max(0, parts[1][at]));
  const scale = Math.min(wide ? 150 : 100, (wide ? 100 : 60) / Math.max(...up, 0.01));

  for (const head of [0, 1]) {
    const s = symbol(head);
    const own = `s${head + 1}`;
    const [from, x, at] = !split
      ? [wide ? 300 : 0, left, top + head * (size * thick + 6)]
      : wide
        ? [head * 664, head * 664 + 80, 156]
        : [0, left, top + head * apart];
    fork.output(head).forEach(
      (value, row) =>
      pen.cell(`out:${head}:${row}`, from, at + row * thick, out, thick, value, head, wide ? 14 : 12, { s: `${s} concat`, stroke: "own", delay: row * 25 + head * 60 }), // prettier-ignore
    );
    const beside = at + 2 * thick + 5;
    const named = words.fork.head(head + 1);
    if (wide && split) pen.text(`head:${head}`, from, at - 10, 15, named, { kind: `b ${own}`, s });
    else if (wide) pen.text(`head:${head}`, from - 14, beside, 15, named, { kind: `b ${own}`, anchor: "end", s });
    if (split) pen.text(`rows:${head}`, x + count * cells, at - 10, 12, said.rowsOf(head + 1), { kind: own, anchor: "end", s: "wo" }); // prettier-ignore
    else if (wide) pen.text(`rows:${head}`, x + count * cells + 12, beside, 13, said.rows(head + 1), { kind: own, s: "wo" }); // prettier-ignore
    if (wide && !split) pen.text(`times:${head}`, (from + out + x) / 2, beside, 16, "×", { anchor: "middle" });
    for (let row = head * size; row < (head + 1) * size; row++)
      for (let to = 0; to < count; to++) {
        const place = [x + to * cells, at + (row % size) * thick] as const;
        const value = fork.drawn.W[row][to];
        pen.cell(`w:${row}:${to}`, ...place, cells, thick, value, head, wide ? 13 : 11, { s: `wo ${s}` });
        const tabindex = fork.cell[0] === row && fork.cell[1] === to ? 0 : -1;
        pen.handle(`w:${row}:${to}`, place[0] + 1, place[1] + 1, cells - 2, thick - 2, said.tile(row + 1, to + 1), value, { tabindex, "aria-valuemin": -1, "data-axis": "x", "data-full": 60 }); // prettier-ignore
      }
    // what this head contributes, on the other head's bar where both point one way
    parts[head].forEach((value, to) => {
      const base = head && parts[0][to] * value > 0 ? parts[0][to] : 0;
      const bar = (from: number, line: number) => line - (value >= 0 ? from + value : from) * scale;
      const high = Math.abs(value) * scale;
      const middle = left + (to + 0.5) * cells;
      const look = { fill: colour(head), s: `y ${s}` };
      pen.rect(`y:${head}:${to}`, middle - cells * 0.3, bar(base, zero), cells * 0.6, high, look);
      if (!split) return;
      const line = at + size * thick + (wide ? 56 : 40);
      const [mine, below] = [x + (to + 0.5) * cells, value < 0 ? high : 0];
      pen.rect(`part:${head}:${to}`, mine - cells * 0.3, bar(0, line), cells * 0.6, high, { ...look, from: `y:${head}:${to}` }); // prettier-ignore
      if (!to) pen.line(`zero:${head}`, x, line + 0.5, x + count * cells, line + 0.5, {});
      pen.text(`partn:${head}:${to}`, mine, line + 17 + below, wide ? 12 : 11, exact(value), { kind: own, anchor: "middle", s: `y ${s}` }); // prettier-ignore
      if (wide) pen.thread(`add:${head}:${to}`, "flow", mine, line + 24 + below, middle, zero - up[to] * scale - 8, { stroke: colour(head), opacity: to === column ? 0.9 : 0.22, s: `y ${s}` }); // prettier-ignore
    });
  }
  if (!split) {
    pen.rect("framed", left + column * cells - 1.5, top - 2.5, cells + 3, 2 * size * thick + 11, { stroke: "var(--ink)", thick: 1.5, s: "wo" }); // prettier-ignore
    pen.text("wo", left + (count * cells) / 2, top - 12, 14, said.matrix(2 * size, count), { kind: "two", anchor: "middle", s: "wo" }); // prettier-ignore
    if (wide) pen.lines("key", 0, 160, 13, said.key, { kind: "two", s: "wo" });
  }
  pen.line("axis", left - 6, zero + 0.5, left + count * cells + 6, zero + 0.5, { stroke: "var(--ink-3)", s: "y" });
  pen.text("y", wide ? left - 16 : 0, zero + 5, 18, "*y*", { kind: "w", anchor: wide ? "end" : undefined, s: "y" });
  const low = zero + (wide ? 62 : 46);
  y.forEach((value, to) => {
    const x = left + to * cells;
    pen.line(`net:${to}`, x + cells * 0.1, zero - value * scale, x + cells * 0.9, zero - value * scale, { stroke: "var(--ink)", thick: 2.5, s: "y" }); // prettier-ignore
    pen.text(`yn:${to}`, x + cells / 2, low, wide ? 14 : cells < 42 ? 10 : 12, exact(value), { kind: to === column ? "ink b" : "n", anchor: "middle", s: "y" }); // prettier-ignore
    pen.rect(`press:${to}`, x, zero - 60, cells, 128, { fill: "transparent", press: `column:${to}`, s: "y" });
  });
  pen.line("chosen", left + column * cells + 6, low + 8, left + (column + 1) * cells - 6, low + 8, { stroke: "var(--ink)", thick: 2, s: "y" }); // prettier-ignore
  const sum = [said.takes(column + 1), words.fork.head(1), words.fork.head(2), said.together];
  const addends = ["", exact(parts[0][column]), exact(parts[1][column]), exact(y[column])];
  const [x, line] = wide ? [944, 446] : [0, zero + 76];
  if (wide) {
    sum.forEach((says, k) => {
      const look = { kind: ["two", "s1", "s2", "ink b"][k], s: "y" };
      pen.text(`sum:${k}`, x, line + k * 22 + (k === 3 ? 5 : 0), 14, says, look);
      pen.text(`sumn:${k}`, x + 170, line + k * 22 + (k === 3 ? 5 : 0), 14, addends[k], { ...look, anchor: "end" });
    });
    pen.line("sumline", x, line + 53.5, x + 170, line + 53.5, { stroke: "var(--ink)", s: "y" });
  } else pen.text("sum:0", width, line, 13, said.sum(column + 1, addends[1], addends[2], addends[3]), { kind: "two", anchor: "end", s: "y" }); // prettier-ignore
}
