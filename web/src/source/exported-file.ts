// Source of an exported HTML file: all answers lie in one container inside it (app/export/html.py writes it).
import { Problem } from "./problem";
import { words } from "../words/words";
import { fromBase64, unpack, type Container } from "../wire";
import { tileFrom, lookFrom, attributionFrom, receivedIn } from "./decode";
import { tileOf, partsFrom } from "./recompute-weights";
import {
  type CutPath,
  type CutPathRequest,
  type Tile,
  type ModelCard,
  type PaperClaim,
  type Prediction,
  type Roles,
  type Source,
  type Trace,
  type TraceRequest,
  type WeightsRequest,
  type Why,
  type WhyRequest,
} from "./source";

const notInFile = () => new Problem("NotInFile", words.ui.notInFile);

/** What a file explains: one trace, its arrows, and one cut of each. */
export interface Explained {
  trace: Trace | null;
  arrows: Record<string, Why>;
  cuts: Record<string, CutPath>;
}

/** Answers from stored explanations; `absent` makes the error for what is not among them. */
export function explainedAnswers(stored: Explained | undefined, absent: () => Problem) {
  const held = <Answer>(found: Answer | undefined): Answer => {
    if (found === undefined) throw absent();
    return found;
  };
  return {
    why: ({ head, query, key, minus }: WhyRequest): Why => held(stored?.arrows[`${head} ${query} ${key} ${minus}`]),
    cutPath: ({ writer, reader, into, query, key, group }: CutPathRequest): CutPath =>
      held(group ? undefined : stored?.cuts[`${writer} ${reader} ${into} ${query} ${key}`]),
    trace: (wanted: TraceRequest): Trace =>
      held(stored?.trace && fits(stored.trace, wanted) ? stored.trace : undefined),
  };
}

const fits = (trace: Trace, wanted: TraceRequest) =>
  wanted.position === trace.position.position &&
  (wanted.token === null || wanted.token === trace.token.id) &&
  wanted.minus === null &&
  wanted.floor === trace.floor;

/** Each answer is a container of its own, and must begin at a place of its own for typed arrays to lie on it. */
function part(bundle: Container, name: string): ArrayBuffer {
  const found = bundle.arrays[name];
  if (!found) throw notInFile();
  return found.data.slice().buffer as ArrayBuffer;
}

export function fileSource(bytes: ArrayBuffer): Source {
  const bundle = unpack(bytes);
  const { model, predictions, without, roles, featured, explained } = bundle.values as {
    model: ModelCard;
    predictions: Prediction[];
    without?: Record<string, Prediction>; // at the last position, without each head
    roles: Roles;
    featured: PaperClaim[];
    explained?: Explained;
  };
  const answers = explainedAnswers(explained, notInFile);
  const absent = async () => {
    throw notInFile();
  };
  return {
    live: false,
    model: async () => model,
    look: async () => lookFrom(part(bundle, "look")),
    weights: async (wanted) => weights(bundle, wanted),
    attribution: async ({ site, position }) => attributionFrom(part(bundle, `attribution ${site} ${position}`)),
    predict: async ({ position, off, cuts, how }) => {
      if (!off.length && !cuts.length) return predictions[position];
      const kept = off.length === 1 && !cuts.length && how === "zero" ? without?.[off[0]] : undefined;
      if (kept?.position !== position) throw notInFile();
      return kept;
    },
    why: async (wanted) => answers.why(wanted),
    cutPath: async (wanted) => answers.cutPath(wanted),
    trace: async (wanted) => answers.trace(wanted),
    received: async ({ look, head }) => receivedIn(weights(bundle, wholePattern(look, head))),
    importance: absent,
    featured: async () => featured,
    roles: async () => roles,
    testHeads: async () => roles,
  };
}

function wholePattern(look: string, head: string): WeightsRequest {
  const all: [number, number] = [0, 2 ** 31];
  return { look, head, rows: all, columns: all, pool: 1, how: "max", measure: "weight", aside: false };
}

/** A file holds a head's pattern whole, or, of a long text, what it is made from. */
function weights(bundle: Container, wanted: WeightsRequest): Tile {
  const dot = wanted.head.lastIndexOf(".");
  const parts = `parts ${wanted.head.slice(0, dot)}`;
  if (parts in bundle.arrays) return tileOf(partsFrom(part(bundle, parts)), Number(wanted.head.slice(dot + 1)), wanted);
  return cut(tileFrom(part(bundle, `weights ${wanted.head}`)), wanted.rows, wanted.columns);
}

function cut(tile: Tile, rows: [number, number], columns: [number, number]): Tile {
  const [bottom, right] = [Math.min(rows[1], tile.height), Math.min(columns[1], tile.width)];
  if (rows[0] === 0 && columns[0] === 0 && bottom === tile.height && right === tile.width) return tile;
  const [height, width] = [bottom - rows[0], right - columns[0]];
  const weights = new Float32Array(height * width);
  for (let row = 0; row < height; row++) {
    const from = (rows[0] + row) * tile.width + columns[0];
    weights.set(tile.weights.subarray(from, from + width), row * width);
  }
  return { ...tile, rows: [rows[0], bottom], columns: [columns[0], right], weights, height, width };
}

/** The bytes inside the page, where it is a saved one. */
export function bytesInPage(id = "headscope-data"): ArrayBuffer | null {
  const text = document.getElementById(id)?.textContent;
  return text ? fromBase64(text) : null;
}
