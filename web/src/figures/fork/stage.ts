// A small scene in SVG: a list of named things. What stays in the list moves, what is new fades in, what has gone fades out.

type Kind = "rect" | "text" | "line" | "circle" | "flow" | "side" | "arrow" | "path";

export interface Thing {
  id: string;
  kind: Kind;
  at: Record<string, number>; // attributes that move
  set: Record<string, string | number | undefined>; // attributes that do not
  says?: string; // a text: *italic*, **bold**, W_O with an index
  from?: string; // the thing at whose place it is born
  delay?: number;
}

interface Live {
  kind: Kind;
  element: SVGElement;
  now: Record<string, number>;
  from: Record<string, number>;
  to: Record<string, number>;
  set: string[];
  says?: string;
  gone: boolean;
  delay: number;
}

const SVG = "http://www.w3.org/2000/svg";
const TAGS: Partial<Record<Kind, string>> = { flow: "path", side: "path", arrow: "path" };
const MARKED = /\*\*([^*]+)\*\*|\*([^*]+)\*|(?<=[\w*])_(\w)/g;
const round = (value: number) => Math.round(value * 100) / 100;
const ease = (t: number) => (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);

/** The outline of a bent thread or an arrow from its two ends. */
function outline(kind: Kind, { x1, y1, x2, y2 }: Record<string, number>): string {
  const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const bent = kind === "flow" ? [x1, my, x2, my] : [mx, y1, mx, y2];
  if (kind !== "arrow") return `M${x1} ${y1}C${bent.map(round).join(" ")} ${x2} ${y2}`;
  const along = Math.atan2(y2 - y1, x2 - x1);
  const barb = (turn: number) => `${round(x2 - 7 * Math.cos(along + turn))} ${round(y2 - 7 * Math.sin(along + turn))}`;
  return `M${x1} ${y1}L${x2} ${y2}M${barb(-0.42)}L${x2} ${y2}L${barb(0.42)}`;
}

function place({ kind, element, now }: Live): void {
  const at = Object.fromEntries(Object.entries(now).map(([name, value]) => [name, round(value)]));
  if (kind in TAGS) element.setAttribute("d", outline(kind, at));
  if (kind === "text") element.style.fontSize = `${at["font-size"]}px`;
  for (const [name, value] of Object.entries(at))
    if (!(kind in TAGS) || !/^[xy]\d$/.test(name)) element.setAttribute(name, String(value));
}

function write(element: SVGElement, says: string): void {
  element.textContent = "";
  let [end, lowered] = [0, false];
  const span = (text: string, kind: string) => {
    if (!text) return;
    const part = document.createElementNS(SVG, "tspan");
    part.textContent = text;
    if (kind) part.setAttribute("class", kind);
    if (kind === "sub" || lowered) part.setAttribute("dy", kind === "sub" ? ".25em" : "-.18em");
    lowered = kind === "sub";
    element.append(part);
  };
  for (const found of says.matchAll(MARKED)) {
    span(says.slice(end, found.index), "");
    span(found[1] ?? found[2] ?? found[3], found[1] ? "bold" : found[2] ? "symbol" : "sub");
    end = found.index + found[0].length;
  }
  span(says.slice(end), "");
}

export class Stage {
  private readonly live = new Map<string, Live>();
  private order = "";
  private frame = 0;

  constructor(private readonly svg: SVGSVGElement) {}

  /** Show these things, within so many milliseconds. */
  show(things: Thing[], duration: number): void {
    cancelAnimationFrame(this.frame);
    const wanted = new Set(things.map((thing) => thing.id));
    for (const thing of things) this.update(thing);
    for (const [id, one] of this.live)
      if (!wanted.has(id)) Object.assign(one, { from: { ...one.now }, to: { ...one.now, opacity: 0 }, gone: true });
    this.arrange(things);
    const start = performance.now();
    const step = (time: number) => {
      if (this.move(duration ? time - start : Infinity, duration || 1)) this.frame = requestAnimationFrame(step);
    };
    step(start);
  }

  private update({ id, kind, at, set, says, from, delay = 0 }: Thing): void {
    const to = { opacity: 1, ...at };
    let one = this.live.get(id);
    if (one?.kind !== kind) {
      one?.element.remove();
      const twin = from ? this.live.get(from) : undefined;
      const now = twin?.kind === kind ? { ...to, ...twin.now } : { ...to, opacity: 0 };
      const element = document.createElementNS(SVG, TAGS[kind] ?? kind) as SVGElement;
      one = { kind, element, now, from: now, to, set: [], gone: false, delay };
      this.live.set(id, one);
    }
    Object.assign(one, { from: { ...one.now }, to, gone: false, delay });
    const given = Object.keys(set).filter((name) => set[name] !== undefined);
    for (const name of one.set) if (!given.includes(name)) one.element.removeAttribute(name);
    for (const name of given) one.element.setAttribute(name, String(set[name]));
    one.set = given;
    if (says !== undefined && says !== one.says) write(one.element, (one.says = says));
  }

  private arrange(things: Thing[]): void {
    const order = things.map((thing) => thing.id).join();
    if (order === this.order) return;
    this.order = order;
    const focused = document.activeElement as SVGElement | null;
    for (const one of this.live.values()) if (one.gone) this.svg.append(one.element);
    for (const { id } of things) this.svg.append(this.live.get(id)!.element);
    if (focused && this.svg.contains(focused)) focused.focus({ preventScroll: true });
  }

  private move(elapsed: number, duration: number): boolean {
    let moving = false;
    for (const [id, one] of this.live) {
      const t = Math.max(0, Math.min(1, (elapsed - one.delay) / duration));
      for (const [name, to] of Object.entries(one.to)) {
        const from = one.from[name] ?? to;
        const fades = name === "opacity" && (one.gone || from === 0); // the old goes first, the new comes last
        const along = fades ? (one.gone ? Math.min(1, t * 2.2) : Math.max(0, t * 2.5 - 1.5)) : ease(t);
        one.now[name] = from + (to - from) * along;
      }
      place(one);
      if (t < 1) moving = true;
      else if (one.gone) {
        one.element.remove();
        this.live.delete(id);
      }
    }
    return moving;
  }
}
