// Where the parts of a trace stand: rows are tokens, columns are layers, the prediction is at the right.
import type { Trace, TraceRead, TraceStep, WriterShare } from "../../source/source";

export type LineKind = "adds" | "value" | "key" | "query";

export interface TraceNode {
  id: string;
  name: string;
  kind: "head" | "mlp" | "embedding";
  x: number;
  y: number;
  share: number | null; // of the logit, for a part that adds to it
}

export interface TraceLine {
  id: string;
  kind: LineKind;
  d: string;
  width: number;
  value: number;
  parts: string[]; // the names that it belongs to
  says: { writer: string; place: string; head: string; total: number };
}

export interface TraceRow {
  at: number; // the token, or the first of those that are folded
  count: number; // 1, or how many tokens are folded into this line
  y: number;
  used: boolean;
}

export interface TraceLayout {
  rows: TraceRow[];
  nodes: TraceNode[];
  lines: TraceLine[];
  columns: { layer: string; x: number }[];
  bar: { x: number; y: number; height: number };
  left: number;
  right: number;
  height: number;
}

export interface TraceSize {
  width: number;
  phone: boolean;
  sites: string[]; // the layers, in order
}

const SHOWN = 0.15; // of an arrow's score: writers below it have no line
const ALL_ROWS = 26; // up to here every token has a line
const MOST_ROWS = 14;
const ROW = 19;
const LANE = 26;

/** The layer that a part belongs to, as an index; −1 for embeddings. */
export function layerOf(name: string, kind: string, sites: string[]): number {
  if (kind === "head") return sites.indexOf(name.slice(0, name.lastIndexOf(".")));
  const layer = /^mlp (\S+)/.exec(name)?.[1] ?? "";
  return sites.indexOf(layer);
}

export const shownWriters = (read: TraceRead, shares: WriterShare[]) =>
  shares.filter((share) => Math.abs(share.value) >= SHOWN * Math.abs(read.total));

/** Lanes of the parts that add to the logit: later layers above earlier ones, so that nothing crosses on its way out. */
export function lanes(trace: Trace, sites: string[]): TraceStep[] {
  return trace.steps
    .filter((step) => !step.rests)
    .sort((a, b) => layerOf(b.name, b.kind, sites) - layerOf(a.name, a.kind, sites) || b.share - a.share);
}

/** How much each token is used: what is read from it, in logits. */
function used(trace: Trace): Map<number, number> {
  const found = new Map<number, number>();
  const use = (at: number, share: number) => found.set(at, (found.get(at) ?? 0) + Math.abs(share));
  for (const step of trace.steps.filter((each) => !each.rests))
    for (const read of step.reads) {
      use(read.place.position, read.share);
      for (const writer of shownWriters(read, read.answered))
        if (writer.kind === "head" && writer.read)
          use(writer.read.place.position, (read.share * writer.value) / (read.total || 1));
    }
  use(trace.position.position, Infinity);
  return found;
}

export function rowsOf(trace: Trace, tokens: number): TraceRow[] {
  const weights = used(trace);
  const strongest = [...weights].sort((a, b) => b[1] - a[1]).slice(0, MOST_ROWS);
  const shown = new Set(strongest.map(([at]) => at));
  const rows: TraceRow[] = [];
  const last = Math.min(tokens - 1, trace.position.position);
  let y = 40;
  for (let at = 0; at <= last; at++) {
    const before = rows.at(-1);
    const alone = last < ALL_ROWS || shown.has(at);
    if (!alone && before && before.count >= 1 && !before.used && !shown.has(before.at)) before.count++;
    else {
      rows.push({ at, count: 1, y, used: weights.has(at) && (last < ALL_ROWS || shown.has(at)) });
      y += ROW;
    }
  }
  return rows;
}

export function layOut(trace: Trace, tokens: number, { width, phone, sites }: TraceSize): TraceLayout {
  const rows = rowsOf(trace, tokens);
  const [left, right] = [phone ? 62 : 96, width - (phone ? 74 : 118)];
  const step = (right - left - (phone ? 20 : 70)) / Math.max(1, sites.length);
  const bottom = rows.at(-1)!.y;
  const parts = lanes(trace, sites);
  const rowAt = (at: number) => rows.find((row) => at >= row.at && at < row.at + row.count)?.y ?? bottom;
  const size = trace.steps.reduce((sum, each) => sum + Math.abs(each.share), 0);
  const scale = Math.min(10, 120 / Math.max(size, 1e-9));
  const thick = (value: number) => Math.max(0.9, Math.abs(value) * scale);
  const places = new Map<number, number>(); // how many parts stand in a layer already
  const x = (name: string, kind: string) => {
    const layer = layerOf(name, kind, sites);
    return layer < 0 ? left : left + (layer + (kind === "head" ? 0.2 : 0.7)) * step;
  };
  const nodes = new Map<string, TraceNode>();
  const lines: TraceLine[] = [];
  const put = (node: TraceNode) => {
    if (!nodes.has(node.id)) nodes.set(node.id, node);
    return nodes.get(node.id)!;
  };
  const kindOf = (kind: string) => (kind === "head" || kind === "mlp" ? kind : "embedding");
  let stacked = 0;
  const barTop = bottom + 20;

  parts.forEach((part, lane) => {
    const layer = layerOf(part.name, part.kind, sites);
    const beside = places.get(layer) ?? 0;
    places.set(layer, beside + 1);
    const y = bottom + 30 + lane * LANE;
    const at = Math.min(right - 24, x(part.name, part.kind) + Math.min(beside * 9, step * 0.6));
    const node = put({
      id: `part ${part.name}`,
      name: part.name,
      kind: kindOf(part.kind),
      x: at,
      y,
      share: part.share,
    });
    const ends = barTop + stacked + thick(part.share) / 2;
    stacked += thick(part.share);
    const bend = Math.max(node.x + 8, right - 60);
    lines.push({
      id: `adds ${part.name}`,
      kind: "adds",
      d: `M${node.x} ${y}H${bend}C${(bend + right) / 2} ${y} ${(bend + right) / 2} ${ends} ${right} ${ends}`,
      width: thick(part.share),
      value: part.share,
      parts: [part.name],
      says: { writer: part.name, place: "", head: "", total: trace.total },
    });
    part.reads.forEach((read, k) => readLines(part, read, node, k));
  });

  function readLines(part: TraceStep, read: TraceRead, node: TraceNode, k: number) {
    const from = rowAt(read.place.position) + (k % 3) * 2;
    const near = Math.max(left + 4, node.x - 34);
    const said = { place: read.place.token, head: part.name, total: read.total };
    lines.push({
      id: `value ${part.name} ${read.place.position}`,
      kind: "value",
      d: `M${left} ${from}H${near}C${node.x - 12} ${from} ${node.x - 26} ${node.y} ${node.x} ${node.y}`,
      width: thick(read.share),
      value: read.share,
      parts: [part.name],
      says: { ...said, writer: read.place.token },
    });
    for (const writer of shownWriters(read, read.answered)) writerLine(part, read, node, writer, "key");
    for (const writer of shownWriters(read, read.asked)) writerLine(part, read, node, writer, "query");
  }

  function writerLine(part: TraceStep, read: TraceRead, node: TraceNode, writer: WriterShare, kind: "key" | "query") {
    if (kindOf(writer.kind) === "embedding") return; // the token's own line
    const place = kind === "key" ? read.place.position : trace.position.position;
    const y = rowAt(place) - (kind === "key" ? 7 : 0);
    const mark = put({
      id: `${kind} ${writer.name} ${place}`,
      name: writer.name,
      kind: kindOf(writer.kind),
      x: x(writer.name, writer.kind),
      y,
      share: null,
    });
    const width = Math.min(9, thick((part.share * writer.value) / (read.total || 1)));
    const d =
      kind === "key"
        ? `M${mark.x} ${y}H${node.x - 6}Q${node.x} ${y} ${node.x} ${y + 6}V${node.y}`
        : `M${mark.x} ${y}V${node.y + 7}Q${mark.x} ${node.y + 9} ${mark.x + 6} ${node.y + 9}H${node.x - 4}L${node.x} ${node.y}`;
    const says = { writer: writer.name, place: read.place.token, head: part.name, total: read.total };
    const id = `${kind} ${writer.name} ${part.name} ${read.place.position}`;
    lines.push({ id, kind, d, width, value: writer.value, parts: [part.name, writer.name], says });
    if (kind !== "key" || writer.kind !== "head" || !writer.read) return;
    const from = rowAt(writer.read.place.position);
    const source = `value ${writer.name} at ${place}`;
    const known = lines.find((line) => line.id === source);
    if (known) return void known.parts.push(part.name);
    const near = Math.max(left + 4, mark.x - 30);
    lines.push({
      id: source,
      kind: "value",
      d: `M${left} ${from}H${near}C${mark.x - 8} ${from} ${mark.x - 20} ${y} ${mark.x} ${y}`,
      width,
      value: writer.read.weight,
      parts: [writer.name, part.name],
      says: { writer: writer.read.place.token, place: read.place.token, head: writer.name, total: 0 },
    });
  }

  const height = Math.max(bottom + 40 + parts.length * LANE, barTop + stacked + 40);
  return {
    rows,
    nodes: [...nodes.values()],
    lines,
    columns: sites.map((layer, k) => ({ layer, x: left + (k + 0.45) * step })),
    bar: { x: right, y: barTop, height: Math.max(4, stacked) },
    left,
    right,
    height,
  };
}
