// What the fork's pictures are made of: the sentence, shares that can be dragged, planes, rows of numbers.
import { blend, type Palette } from "../../draw/colour";
import { contrast } from "../../draw/contrast";
import { textWidth } from "../../draw/text-width";
import { short } from "../../format";
import { words } from "../../words/words";
import type { Fork, Row } from "./fork.svelte";
import type { Thing } from "./stage";

export interface Look {
  kind?: string; // its class
  s?: string; // the symbols of the formula that it belongs to
  anchor?: "middle" | "end";
  fill?: string;
  stroke?: string;
  thick?: number;
  dash?: string;
  tint?: number;
  opacity?: number;
  press?: string;
  from?: string;
  delay?: number;
}

/** A word of the sentence: where it begins, its middle and its baseline. */
export interface Spot {
  x: number;
  y: number;
  width: number;
  middle: number;
}

// Five words in four dimensions are in general position: an affine map takes them exactly to these places.
const PLACES: Record<string, Row> = {
  animal: [0.11, 0.8],
  road: [0.47, 0.5], // between animal and tired: a bit of each ends there
  because: [0.6, 0.88],
  was: [0.76, 0.62],
  tired: [0.91, 0.16],
};
export const colour = (head: number): string => ["var(--h1)", "var(--h2)"][head] ?? "var(--quiet)";
export const symbol = (head: number): string => ["head1", "head2"][head] ?? "headh";

/** .4875, −.5, 0: up to four decimals, without the zeros at their end. */
export function exact(value: number): string {
  const text = short(Math.round(value * 1e4) / 1e4, 4).replace(/0+$/, "").replace(/[.,]$/, ""); // prettier-ignore
  return text === "" || text === "−" ? "0" : text;
}

export class Pen {
  readonly things: Thing[] = [];
  height = 0;

  constructor(
    readonly fork: Fork,
    readonly width: number,
    readonly wide: boolean,
    private readonly colours: Palette,
  ) {}

  private add(
    id: string,
    kind: Thing["kind"],
    at: Record<string, number>,
    look: Look,
    set: Thing["set"] = {},
    says?: string,
  ) {
    const { kind: name, s, anchor, fill, stroke, thick, dash, tint, opacity, press, from, delay } = look;
    if (opacity !== undefined) at.opacity = opacity;
    if (tint !== undefined) at["fill-opacity"] = tint;
    this.things.push({
      id,
      kind,
      at,
      set: {
        class: name,
        "data-s": s,
        "text-anchor": anchor,
        fill,
        stroke,
        "stroke-width": thick,
        "stroke-dasharray": dash,
        "data-press": press,
        "pointer-events": press || set.role ? "all" : "none",
        ...set,
      },
      says,
      from,
      delay,
    });
  }

  text(id: string, x: number, y: number, size: number, says: string, look: Look = {}): void {
    this.add(id, "text", { x, y, "font-size": size }, look, {}, says);
  }
  lines(id: string, x: number, y: number, size: number, says: string, look: Look = {}): void {
    says.split("\n").forEach((line, k) => this.text(`${id}:${k}`, x, y + k * size * 1.4, size, line, look));
  }
  rect(id: string, x: number, y: number, width: number, height: number, look: Look): void {
    this.add(id, "rect", { x, y, width: Math.max(0, width), height: Math.max(0, height) }, { fill: "none", ...look });
  }
  line(id: string, x1: number, y1: number, x2: number, y2: number, look: Look, set: Thing["set"] = {}): void {
    this.add(id, "line", { x1, y1, x2, y2, "stroke-width": look.thick ?? 1 }, { stroke: "var(--line-2)", ...look, thick: undefined }, set); // prettier-ignore
  }
  circle(id: string, cx: number, cy: number, r: number, look: Look, set: Thing["set"] = {}): void {
    this.add(id, "circle", { cx, cy, r }, look, set);
  }
  /** A thread that leaves and arrives upright ("flow") or lying down ("side"), or an arrow. */
  thread(
    id: string,
    kind: "flow" | "side" | "arrow",
    x1: number,
    y1: number,
    x2: number,
    y2: number,
    look: Look,
  ): void {
    const round = { "stroke-linecap": "round", "stroke-linejoin": "round" };
    const at = { x1, y1, x2, y2, "stroke-width": look.thick ?? 1 };
    this.add(id, kind, at, { fill: "none", stroke: "var(--line-2)", ...look, thick: undefined }, round);
  }
  bracket(id: string, left: number, right: number, y: number, look: Look): void {
    const d = `M${left} ${y}v7h${right - left}v-7`;
    this.add(id, "path", {}, { fill: "none", stroke: "var(--ink-3)", ...look }, { d });
  }
  /** An area that is dragged, along x or y: so many pixels are 1. */
  handle(
    drag: string,
    x: number,
    y: number,
    width: number,
    height: number,
    label: string,
    now: number,
    set: Thing["set"],
    look: Look = {},
  ): void {
    const slider = {
      role: "slider",
      tabindex: 0,
      "aria-label": label,
      "aria-valuenow": now.toFixed(2),
      "aria-valuetext": exact(now),
      "aria-valuemin": 0,
      "aria-valuemax": 1,
      "data-drag": drag,
      rx: 3,
    };
    this.add(`handle:${drag}`, "rect", { x, y, width, height }, { kind: "handle", fill: "transparent", ...look }, { ...slider, ...set }); // prettier-ignore
  }

  /** One number: the deeper the tint the larger, hollow below 0. */
  cell(
    id: string,
    x: number,
    y: number,
    width: number,
    height: number,
    value: number,
    head: number,
    size: number,
    look: Look = {},
  ): void {
    const [zero, below] = [Math.abs(value) < 5e-4, value < -5e-4];
    const tint = below ? 0.1 : 0.14 + 0.78 * Math.min(1, value);
    const box = zero ? { fill: "var(--w0)", tint: 1 } : { fill: colour(head), tint };
    const stroke = below || look.stroke ? colour(head) : undefined;
    this.rect(id, x + 0.5, y + 0.5, width - 1, height - 1, { ...look, ...box, stroke, thick: below ? 1.5 : 1 });
    const kind = zero ? undefined : this.inkOn(head, tint);
    const from = look.from && `${look.from}n`;
    this.text(`${id}n`, x + width / 2, y + height / 2 + size * 0.36, size, exact(value), { ...look, stroke: undefined, anchor: "middle", kind, from }); // prettier-ignore
  }

  private inkOn(head: number, tint: number): string {
    const { paper, ink, h1, h2, quiet } = this.colours;
    const back = blend(paper, [h1, h2][head] ?? quiet, tint);
    return contrast(back, paper) > contrast(back, ink) ? "paper" : "n";
  }

  /** The sentence, wrapped to a width; where each word is. */
  sentence(x: number, y: number, size: number, plain = false): Spot[] {
    const { sentence, names, reader } = this.fork;
    const widths = sentence.map((word) => textWidth(word, `${size}px "IBM Plex Serif"`));
    const whole = widths.reduce((sum, each) => sum + each + size * 0.3, -size * 0.3);
    let [left, baseline] = [this.wide ? (x < 0 ? (this.width - whole) / 2 : x) : 0, y];
    return sentence.map((word, at) => {
      if (!this.wide && left + widths[at] > this.width) [left, baseline] = [0, baseline + size * 1.5];
      const own = word === reader;
      const kind = own ? "w token" : names.includes(word) && !plain ? "w" : "w pale";
      this.text(`word:${at}`, left, baseline, size, word, { kind, s: own ? "q x" : "x" });
      const spot = { x: left, y: baseline, width: widths[at], middle: left + widths[at] / 2 };
      if (own) this.line("under", left, baseline + size * 0.16, left + widths[at], baseline + size * 0.16, { stroke: "var(--accent)", thick: 2, s: "q x" }); // prettier-ignore
      left += widths[at] + size * 0.3;
      return spot;
    });
  }
  spot = (spots: Spot[], name: string): Spot => spots[this.fork.sentence.indexOf(name)];

  /** A share as a bar that hangs (Start's), or lies: to the right, or to the left. */
  share(
    head: number,
    word: number,
    x: number,
    y: number,
    thick: number,
    full: number,
    size = 14,
    lies = 0,
    number?: number,
  ): void {
    const value = this.fork.drawn.shares[head][word];
    const long = Math.max(1, value * full);
    const id = `${head}:${word}`;
    const born = (part: string): Look => ({
      s: `softmax ${symbol(head)}`,
      from: head ? `${part}:0:${word}` : undefined,
    });
    const bar = { ...born("bar"), fill: colour(head) };
    const ends = { ...born("grip"), stroke: "var(--ink)", thick: 3 };
    const rail = { ...born("rail"), stroke: "var(--line)" };
    const says = short(this.fork.printed(head)[word]);
    const label = words.fork.share(this.fork.names[word], head + 1);
    if (lies) {
      const tip = x + lies * long;
      this.line(`rail:${id}`, x, y + thick / 2, x + lies * full, y + thick / 2, rail, { "data-rail": id });
      this.rect(`bar:${id}`, Math.min(x, tip), y, long, thick, bar);
      this.line(`grip:${id}`, tip, y - 3, tip, y + thick + 3, ends);
      this.text(`share:${id}`, number ?? tip + lies * 7, y + thick / 2 + size * 0.36, size, says, { ...born("share"), kind: "n", anchor: number !== undefined || lies < 0 ? "end" : undefined }); // prettier-ignore
      this.handle(`share:${id}`, Math.min(x, x + lies * full) - 6, y - 6, full + 12, thick + 12, label, this.fork.printed(head)[word], { "data-axis": "x", "data-full": lies * full }); // prettier-ignore
    } else {
      this.line(`rail:${id}`, x + thick / 2, y, x + thick / 2, y + full, rail, { "data-rail": id });
      this.rect(`bar:${id}`, x, y, thick, long, bar);
      this.line(`grip:${id}`, x - 2, y + long, x + thick + 2, y + long, ends);
      this.text(`share:${id}`, x + thick / 2, y + long + size + 5, size, says, { ...born("share"), kind: "n", anchor: "middle" }); // prettier-ignore
      this.handle(
        `share:${id}`,
        x - 4,
        y - 2,
        thick + 8,
        Math.max(34, full + 10),
        label,
        this.fork.printed(head)[word],
        { "data-full": full },
      );
    }
  }

  /** Start's plane: every word pulls on the reader's dot, as strongly as its share. */
  plane(
    head: number,
    x: number,
    y: number,
    width: number,
    height: number,
    size: number,
    two: boolean,
    columns?: (word: number) => number,
  ): Row {
    const { names, drawn } = this.fork;
    const shares = drawn.shares[head];
    const born = (part: string, word?: number): Look => ({
      from: head ? `${part}:0${word === undefined ? "" : `:${word}`}` : undefined,
    });
    const places = names.map((name) => PLACES[name]);
    const at = places.map(([px, py], word) => [columns?.(word) ?? x + (0.05 + px * 0.9) * width, y + 22 + py * (height - 44)]); // prettier-ignore
    const dot = [0, 1].map((c) => shares.reduce((sum, share, word) => sum + share * at[word][c], 0));
    this.rect(`plane:${head}`, x + 0.5, y + 0.5, width - 1, height - 1, { stroke: "var(--line)", s: "v", ...born("plane") }); // prettier-ignore
    at.forEach(
      ([px, py], word) =>
      this.line(`pull:${head}:${word}`, dot[0], dot[1], px, py, { stroke: colour(head), thick: Math.max(0.6, (shares[word] * size) / 1.8), opacity: 0.55, s: `softmax ${symbol(head)}`, ...born("pull", word) }), // prettier-ignore
    );
    const low = (word: number) => places[word][1] > 0.7;
    const label = (word: number) => at[word][1] + (low(word) ? size * 1.05 : -size * 0.5);
    at.forEach(([px, py], word) => {
      this.circle(`point:${head}:${word}`, px, py, 3.5, { fill: "var(--ink)", s: "v", ...born("point", word) });
      const edge = !columns && names[word] === "tired";
      this.text(`place:${head}:${word}`, edge ? px + 10 : px, label(word), size, names[word], { kind: "w halo", anchor: edge ? "end" : "middle", s: "v", ...born("place", word) }); // prettier-ignore
    });
    this.circle(`dot:${head}`, dot[0], dot[1], size / 2, { fill: colour(head), stroke: "var(--paper)", thick: 2, s: symbol(head), ...born("dot") }); // prettier-ignore
    // the reader's name goes to the side that is farthest from the other names
    const spots = [[0, 1.35], [0, -0.75], [-1.3, 0.35], [1.3, 0.35]].map(([a, b]) => [dot[0] + a * size, dot[1] + b * size]); // prettier-ignore
    const taken = [...at, ...at.map(([px], word) => [px, label(word) - size * 0.3])];
    const room = ([px, py]: Row) =>
      Math.min(26, ...taken.map(([tx, ty]) => Math.hypot((px - tx) * 0.6, py - size * 0.3 - ty)));
    const best = spots.reduce((kept, each) => (room(each) > room(kept) ? each : kept));
    this.text(`reader:${head}`, best[0], best[1], size, two ? `${this.fork.reader}_${head + 1}` : this.fork.reader, { kind: "w token halo", anchor: "middle", s: symbol(head), ...born("reader") }); // prettier-ignore
    return dot;
  }

  /** A head's output as a row of numbers. */
  row(head: number, x: number, y: number, width: number, height: number, size: number): void {
    this.fork.output(head).forEach(
      (value, at) =>
      this.cell(`out:${head}:${at}`, x + at * width, y, width, height, value, head, size, { s: `${symbol(head)} concat`, from: head ? `out:0:${at}` : undefined }), // prettier-ignore
    );
  }

  /** The values, each word's row as thick as its share. */
  stack(head: number, x: number, y: number, width: number, full: number): void {
    let top = y;
    this.fork.drawn.shares[head].forEach((share, word) => {
      const thick = share * full;
      this.fork.values[word].forEach((value, at) => {
        const tint = value ? 0.14 + 0.78 * value : 1;
        const id = `${head}:${word}:${at}`;
        this.rect(`value:${id}`, x + at * width + 0.5, top, width - 1, Math.max(0.6, thick - 1), { fill: value ? colour(head) : "var(--w0)", tint, s: "v" }); // prettier-ignore
        if (thick > 15) this.text(`valued:${id}`, x + (at + 0.5) * width, top + thick / 2 + 4, thick > 30 ? 14 : 11, exact(value), { kind: value ? this.inkOn(head, tint) : "", anchor: "middle", s: "v" }); // prettier-ignore
      });
      if (thick >= 12) this.text(`of:${head}:${word}`, x - 7, top + thick / 2 + 4, 13, this.fork.names[word], { kind: "w", anchor: "end", s: "v" }); // prettier-ignore
      top += thick;
    });
  }
}
