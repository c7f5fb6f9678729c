// Steps 6 and 7: the same picture for a layer's many heads, and one head of a real model switched off.
import { percent, short, signed, visible } from "../../format";
import { textWidth } from "../../draw/text-width";
import type { Evidence } from "../../tour/evidence";
import { words } from "../../words/words";
import { colour, symbol, type Pen } from "./pen";

/** Invented shares for the heads that the worked example does not have; always the same. */
function invented(head: number, count: number): number[] {
  const noise = (at: number) => {
    const wave = Math.sin(at * 127.1 + 11.7) * 43758.5453;
    return Math.exp(3.2 * (wave - Math.floor(wave)));
  };
  const row = Array.from({ length: count }, (_, at) => noise(head * count + at));
  const whole = row.reduce((sum, each) => sum + each, 0);
  return row.map((each) => each / whole);
}

export function many(pen: Pen): void {
  const { fork, wide, width } = pen;
  const { heads, sets } = fork;
  const of = (head: number) => (fork.coloured.includes(head) ? fork.coloured.indexOf(head) : 2);
  const said = words.fork.many;
  const each = fork.width / heads;
  const spots = pen.sentence(wide ? -1 : 0, wide ? 24 : 20, wide ? 24 : 19, true);
  const own = pen.spot(spots, fork.reader);
  const column = width / heads;
  const inner = column * 0.78;
  const group = (column * heads) / sets;
  const left = (head: number) => head * column + (column - inner) / 2;
  const keys = spots.at(-1)!.y + (wide ? 52 : 42); // the top of K and V, then of the bars, the outputs, the strip
  const tall = wide ? 24 : 20;
  const bars = keys + tall + 22;
  const outputs = bars + (wide ? 72 : 62);
  const strip = outputs + (wide ? 62 : 54);
  const long = wide ? Math.min(width, 1120) : width;
  const begins = (width - long) / 2;
  const high = wide ? 22 : 18;
  const few = heads <= 16;
  for (let set = 0; set < sets; set++) {
    const x = (set + 0.5) * group;
    const box = Math.max(1.5, group - (heads === sets ? column - inner : column * 0.32));
    pen.thread(`set:${set}`, "flow", own.middle, own.y + 8, x, keys - 2, { s: "x" });
    pen.rect(`kv:${set}`, x - box / 2, keys, box, tall, { fill: "var(--paper)", stroke: "var(--ink)", thick: 1.2, s: "k v", from: set ? `kv:${set - 1}` : undefined }); // prettier-ignore
    if (box > 26) pen.text(`kvn:${set}`, x, keys + tall / 2 + 4.5, wide ? 13 : 11, "K V", { kind: "w", anchor: "middle", s: "k v" }); // prettier-ignore
  }
  for (let head = 0; head < heads; head++) {
    const x = left(head) + inner / 2;
    const [fill, s] = [colour(of(head)), symbol(of(head))];
    const quiet = of(head) > 1;
    const born = (part: string) => (head > 1 ? `${part}:1` : undefined);
    const shares = fork.drawn.shares[head] ?? invented(head, fork.names.length);
    const bar = inner / shares.length;
    const tint = quiet ? (head % 2 ? 0.5 : 0.8) : 1;
    pen.thread(`ask:${head}`, "flow", x, bars - 2, x, keys + tall, { stroke: "var(--ink)", thick: 1.2, s: "q" });
    pen.circle(`q:${head}`, x, bars - 8, Math.min(wide ? 3.5 : 2.5, inner / 4), { fill: "var(--accent)", s: "q" });
    shares.forEach(
      (share, word) =>
      pen.rect(`bar:${head}:${word}`, left(head) + word * bar, bars, Math.max(0.6, bar * 0.85), Math.max(1, share * (wide ? 54 : 46)), { fill, s: `softmax ${s}`, from: head > 1 ? `bar:1:${word}` : undefined }), // prettier-ignore
    );
    pen.rect(`output:${head}`, left(head), outputs, inner, wide ? 16 : 12, { stroke: fill, dash: "2 3", s });
    const part = long / heads;
    pen.thread(`down:${head}`, "flow", x, outputs + (wide ? 18 : 14), begins + (head + 0.5) * part, strip - 3, { stroke: quiet ? "var(--line-2)" : fill, thick: quiet ? 1 : 1.5, s: "concat" }); // prettier-ignore
    pen.rect(`part:${head}`, begins + head * part, strip, Math.max(0.5, part - (few ? 1 : 0.4)), high, { fill, tint, s: `concat ${s}`, from: born("part"), delay: Math.min(400, head * 12) }); // prettier-ignore
    pen.rect(`press:${head}`, head * column, bars - 14, column, outputs - bars + 34, { fill: "transparent", press: `head:${head}`, s }); // prettier-ignore
    pen.rect(`pick:${head}`, begins + head * part, strip, part, high, {
      fill: "transparent",
      press: `head:${head}`,
      s,
    });
  }
  if (heads > 1)
    fork.coloured.forEach(
      (head, which) =>
      pen.handle(`head:${which}`, begins + (head * long) / heads, strip - 1, long / heads, high + 2, said.coloured[which], head + 1, { "aria-valuemin": 1, "aria-valuemax": heads, "data-axis": "x", "data-full": long / heads }), // prettier-ignore
    );
  pen.text("joins", width / 2, strip + high + 18, wide ? 15 : 13, words.fork.joins(heads, each), { kind: "two", anchor: "middle", s: "concat" }); // prettier-ignore

  // W_O as one band of rows per head, y as one layer per head
  const side = wide ? 128 : 72;
  const [x, top] = [width / 2 - side / 2, strip + high + 38];
  const bottom = top + side + 24;
  const [deep, own2] = [wide ? 40 : 28, heads > 2 ? 5 : wide ? 20 : 14];
  const rest = (deep - 2 * own2) / Math.max(1, heads - 2);
  let y = bottom;
  for (let head = 0; head < heads; head++) {
    const band = side / heads;
    const mine = of(head) < 2;
    const look = { fill: colour(of(head)), tint: mine ? 1 : head % 2 ? 0.45 : 0.7 };
    pen.rect(`band:${head}`, x, top + head * band, side, band - (few ? 1 : band * 0.1), { ...look, s: "wo", from: head > 1 ? "band:1" : undefined }); // prettier-ignore
    const thick = heads === 1 ? deep : mine ? own2 : rest;
    pen.rect(`y:${head}`, begins, y, long, thick * 0.92, { ...look, s: "y", from: `band:${head}` });
    y += thick;
  }
  const marks = wide ? 64 : 24;
  for (let at = 1; at < marks; at++)
    pen.line(`at:${at}`, begins + (at * long) / marks, bottom, begins + (at * long) / marks, bottom + deep, { stroke: "var(--paper)" }); // prettier-ignore
  pen.text("wo", x + side + 14, top + side / 2, 16, "W_O", { kind: "w", s: "wo" });
  pen.text("wosize", x + side + 14, top + side / 2 + 20, 12, `${fork.width} × ${fork.width}`, { s: "wo" });
  pen.lines("rows", x - 14, top + 12, 12, said.band(each), { anchor: "end", s: "wo" });
  if (heads > 2) pen.lines("pick", x - 14, top + side - (wide ? 20 : 10), 12, said.pick, { anchor: "end" });
  pen.text("y", width / 2, bottom + deep + 22, wide ? 15 : 12, said.again(fork.width), { kind: "two", anchor: "middle", s: "y" }); // prettier-ignore
  pen.height = bottom + deep + 36;
  if (!wide) return;
  pen.text("sets", 0, 22, 14, said.sets(sets), { kind: "ink", s: "k v" });
  pen.text("asks", width, 22, 14, said.queries(heads), { kind: "token", anchor: "end", s: "q" });
}

export function switchOff(pen: Pen, real: Evidence): void {
  const { fork, wide, width } = pen;
  const { off } = fork;
  const said = words.fork.off;
  const { tokens, reads, layer, head, parts, guesses } = real;
  const me = layer.indexOf(head);
  const [size, full] = wide ? [26, 62] : [18, 26];
  const last = tokens.length - 1;
  let [x, y] = [0, size];
  // the text, with what the head reads below it
  tokens.forEach((token, at) => {
    const special = at === 0 && real.opens;
    const letter = special ? size * 0.56 : size;
    const long = special ? token.length * letter * 0.6 : textWidth(token, `${letter}px "IBM Plex Serif"`);
    if (x + long > width) [x, y] = [0, y + full + 36];
    pen.text(`token:${at}`, x, y, letter, token, { kind: special ? "mono" : at === last ? "w token" : "w", s: "x" });
    if (at === last) pen.line("under", x, y + size * 0.18, x + long, y + size * 0.18, { stroke: "var(--accent)", thick: 2 }); // prettier-ignore
    const low = y + size * 0.34;
    if (reads[at] >= 0.1) {
      pen.rect(`read:${at}`, x + 3, low, long - 6, off ? 0 : reads[at] * full, { fill: colour(0), s: "softmax head1" });
      pen.rect(`was:${at}`, x + 3.5, low, long - 7, reads[at] * full, { stroke: colour(0), dash: "2 3" });
      pen.text(`readn:${at}`, x + long / 2, low + reads[at] * full + 14, 12, short(reads[at]), { kind: off ? "" : "s1 b", anchor: "middle", s: "softmax" }); // prettier-ignore
    }
    x += long + size * 0.3;
  });
  if (!guesses.length) {
    pen.height = y + full + 60;
    return;
  }
  const best = visible(guesses[0].text);
  const likeliest = guesses.reduce((kept, one) => ((off ? one.after > kept.after : one.before > kept.before) ? one : kept)); // prettier-ignore
  pen.text("next", x, y, size, visible(likeliest.text), { kind: "w pale symbol" });

  // the layer: its heads' outputs end to end, and what each contributes to the token's logit
  const top = y + (wide ? 108 : 70);
  const half = wide ? 560 : width;
  const part = half / layer.length;
  const high = wide ? 30 : 24;
  const zero = top + high + (wide ? 250 : 112);
  const largest = Math.max(...parts.map(Math.abs), 0.01);
  const scale = (wide ? 160 : 56) / largest;
  pen.text("layer", 0, top - 10, 13, said.layer(layer.length, real.size), { kind: "two", s: "concat" });
  const known = parts.length > 0;
  if (known) pen.text("through", 0, top + high + 28, 13, said.through(best), { kind: "two", s: "wo" });
  if (known) pen.line("axis", 0, zero + 0.5, half, zero + 0.5, { stroke: "var(--ink-3)" });
  layer.forEach((name, at) => {
    const mine = at === me;
    const [middle, bar] = [(at + 0.5) * part, part * 0.6];
    const away = mine && off;
    const tall = Math.abs(parts[at]) * scale;
    const low = parts[at] > 0 ? zero - tall : zero;
    const fill = mine ? colour(0) : colour(2);
    const s = mine ? "head1" : "headh";
    pen.rect(`part:${at}`, at * part + 0.5, top, part - 1, high, { fill, tint: mine ? Number(!off) : at % 2 ? 0.45 : 0.7, stroke: mine ? fill : undefined, dash: away ? "2 3" : undefined, s: `concat ${s}`, press: mine ? "off" : undefined }); // prettier-ignore
    if (part > 24 || mine) pen.text(`partn:${at}`, middle, top + high / 2 + 4.5, part > 38 ? 13 : 11, name, { kind: mine ? (off ? "s1 b" : "paper b") : "ink", anchor: "middle", s: "concat" }); // prettier-ignore
    if (!known) return;
    if (mine) pen.rect("wasn", middle - bar / 2, low, bar, tall, { stroke: fill, dash: "2 3" });
    pen.rect(`y:${at}`, middle - bar / 2, away ? zero : low, bar, away ? 0 : tall, { fill, s: `y ${s}` });
    const number = away ? "0" : signed(parts[at]);
    const above = away || parts[at] > 0;
    if (part > 30 || mine) pen.text(`yn:${at}`, middle, above ? (away ? zero : low) - 7 : zero + tall + 16, part > 44 ? 12 : 11, number, { kind: mine ? "s1 b" : "n", anchor: "middle", s: "y" }); // prettier-ignore
  });

  // the next token; a thread leads to it from what the head contributes
  const left = wide ? 660 : 0;
  const list = wide ? top - 10 : zero + 68;
  const [name, row] = wide ? [90, 52] : [74, 30];
  const bar = row - (wide ? 18 : 14);
  const axis = width - left - name - 62;
  pen.text("list", left, list, 13, said.next, { kind: "two" });
  const others = (which: "before" | "after") => 1 - guesses.reduce((sum, guess) => sum + guess[which], 0);
  const rows = [...guesses, { text: said.others, before: others("before"), after: others("after") }];
  rows.forEach(({ text, before, after }, at) => {
    const y = list + 14 + at * row;
    const now = off ? after : before;
    const rest = at === guesses.length;
    const begin = left + name;
    pen.text(`guess:${at}`, left, y + bar / 2 + 6, rest ? 13 : wide ? 19 : 16, rest ? text : visible(text), { kind: rest ? "" : "w" }); // prettier-ignore
    pen.rect(`before:${at}`, begin + 0.5, y, Math.max(1, before * axis) - 1, bar, { stroke: at ? "var(--quiet)" : colour(0), dash: "2 3" }); // prettier-ignore
    const stays = at ? now : Math.min(before, after);
    pen.rect(`now:${at}`, begin, y, Math.max(1, stays * axis), bar, { fill: rest ? "var(--quiet)" : "var(--ink)", tint: at ? 0.8 : 1 }); // prettier-ignore
    if (!at) pen.rect("hangs", begin + stays * axis, y, Math.max(0, now - stays) * axis, bar, { fill: colour(0), s: "head1" }); // prettier-ignore
    pen.text(`percent:${at}`, width, y + bar / 2 + 5, wide ? 15 : 13, `${percent(now)}%`, { kind: at ? "n" : "ink b", anchor: "end" }); // prettier-ignore
  });
  const mine = (me + 0.5) * part;
  if (wide && known) pen.thread("thread", "side", mine + part * 0.3, zero - (Math.max(0, parts[me]) * scale) / 2, left - 12, list + 14 + bar / 2, { stroke: colour(0), thick: 1.5, dash: off ? "1 5" : undefined, opacity: off ? 0.5 : 0.8, s: "head1" }); // prettier-ignore
  const sum = parts.reduce((whole, each, at) => whole + (off && at === me ? 0 : each), 0);
  if (known) pen.text("sum", 0, zero + (wide ? 66 : 48), 13, said.together(signed(sum)), { kind: "two", s: "y" });
  pen.height = wide ? Math.max(zero + 84, list + 14 + rows.length * row + 10) : list + 14 + rows.length * row + 10;
}
