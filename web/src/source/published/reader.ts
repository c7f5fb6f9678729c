// Answers about one published model: what app/pages/microscope.py answers, computed from the graph's outputs.
import { Problem } from "../problem";
import { rowMaxima, tileOf, type Factors, type Parts } from "../recompute-weights";
import {
  type Attribution,
  type AttributionRequest,
  type FoundToken,
  type Look,
  type PredictRequest,
  type Prediction,
  type SiteCard,
  type Tile,
  type WeightsRequest,
  type Why,
  type WhyRequest,
} from "../source";
import type { PublishedModel } from "./files";
import type { Graph, HeadEdits, Outputs } from "./graph";
import { answerable, measureSite, THUMBNAIL_SIDE } from "./head-scores";
import { directionOf, partsOf, shareOf, type Weights } from "./logit-attribution";
import { effectOf, guessesOf, softmax } from "./next-token";
import { SideParts } from "./score-parts";
import { splitArrow } from "./score-split";
import type { Tokens } from "./tokenizer";

const OF_STREAM = /^(stream|normed) /;
const KEPT_LOOKS = 6;
const KEPT_EDITS = 64;

interface Opened {
  look: Look;
  ids: number[];
  outputs: Outputs;
  parts: Map<string, Parts>;
  streams: Outputs | null; // before and after the norm of each site, for splits
}

export class ModelReader {
  private readonly opened = new Map<string, Opened>();
  private readonly texts = new Map<string, string>();
  private readonly edited = new Map<string, Float32Array>();
  private readonly card: PublishedModel;
  private latest: { name: string; sides: [SideParts, SideParts] } | null = null;

  constructor(
    private readonly graph: Pick<Graph, "run" | "outputs">,
    private readonly tokens: Tokens,
    private readonly weightsOf: Weights,
  ) {
    this.card = weightsOf.card;
  }

  async look(wanted: { text?: string; look?: string }): Promise<Look> {
    const text = wanted.text ?? this.texts.get(wanted.look ?? "");
    if (text === undefined) throw new Problem("ForgottenLookError", "this text is no longer kept; type it again");
    return (await this.open(nameOf(text), text)).look;
  }

  async weights(wanted: WeightsRequest): Promise<Tile> {
    const opened = await this.about(wanted.look);
    const [site, head] = this.find(wanted.head);
    return tileOf(opened.parts.get(site.name)!, head, wanted, this.factors(opened, site, head, wanted));
  }

  async attribution(wanted: AttributionRequest): Promise<Attribution> {
    const { look, outputs, parts } = await this.about(wanted.look);
    const site = this.card.model.sites.find(({ name }) => name === wanted.site)!;
    const { position } = wanted;
    const z = rowOfHeads(outputs[`z ${site.name}`], site.n_heads, look.tokens.length, position);
    const headOutputs = partsOf(this.weightsOf, site.name, z, site.n_heads);
    if (!headOutputs) throw new Problem("ModelError", this.card.attribution.why_not);
    const bias = this.weightsOf.arrays[`bias ${site.name}`] ?? new Float32Array(this.card.model.d_model);
    const output = bias.slice();
    headOutputs.forEach((number, at) => (output[at % output.length] += number));
    const keys = look.tokens.length;
    const reads = new Float32Array(site.n_heads * keys);
    for (let head = 0; head < site.n_heads; head++) {
      const row = {
        ...WHOLE_ROW,
        look: look.look,
        head: "",
        rows: span(position),
        columns: [0, keys] as [number, number],
      };
      reads.set(tileOf(parts.get(site.name)!, head, row).weights, head * keys);
    }
    const shares = this.shares(outputs, look, wanted);
    const kind = this.card.attribution.kinds[site.name];
    return {
      look: look.look,
      site: site.name,
      position,
      kind,
      ...shares,
      weights: reads,
      z,
      headOutputs,
      bias,
      output,
    };
  }

  async predict(wanted: PredictRequest): Promise<Prediction> {
    const opened = await this.about(wanted.look);
    const { position, cuts, how } = wanted;
    const off = [...new Set(wanted.off)];
    const logits = this.logitsAt(opened.outputs.logits, position);
    const guesses = guessesOf(logits, wanted.count, (id) => this.tokens.textOf(id));
    const effect =
      off.length || cuts.length
        ? effectOf(logits, this.logitsAt(await this.under(opened, wanted), position), guesses)
        : { without: null, kl: null };
    return {
      look: wanted.look,
      position,
      off,
      cuts,
      how,
      predicts: "token",
      guesses,
      moved: null,
      ...effect,
    };
  }

  /** One arrow, split over what wrote into query and key. */
  async why(wanted: WhyRequest): Promise<Why> {
    const opened = await this.about(wanted.look);
    const [site, head] = this.find(wanted.head);
    opened.streams ??= await this.graph.run(opened.ids, undefined, this.graph.outputs.filter((name) => OF_STREAM.test(name))); // prettier-ignore
    const group = site.n_heads / site.n_kv_heads;
    const kv = Math.floor(head / group);
    const [q, k] = this.split(opened, site, head, kv);
    q.check(wanted.query);
    k.check(wanted.key);
    return splitArrow({
      asked: wanted,
      head,
      group: Array.from({ length: group }, (_, at) => `${site.name}.${kv * group + at}`),
      q,
      k,
      scores: opened.parts.get(site.name)!,
      tokens: opened.look.tokens.map(({ text }) => text),
      strongest: (name, position) => {
        const [writer, index] = this.find(name);
        const columns: [number, number] = [0, opened.ids.length];
        const row = { ...WHOLE_ROW, look: "", head: "", rows: span(position), columns };
        const { weights } = tileOf(opened.parts.get(writer.name)!, index, row);
        const most = weights.indexOf(weights.reduce((one, other) => Math.max(one, other)));
        return { position: most, weight: weights[most] };
      },
    });
  }

  /** The parts of one head's q and k; those of the latest head are kept. */
  private split(opened: Opened, site: SiteCard, head: number, kv: number): [SideParts, SideParts] {
    const name = `${opened.look.look} ${site.name}.${head}`;
    if (this.latest?.name !== name) {
      const sites = this.card.model.sites.slice(0, this.card.model.sites.indexOf(site) + 1);
      const streams = { sites, outputs: { ...opened.outputs, ...opened.streams! }, length: opened.ids.length };
      const side = (which: "q" | "k", at: number) => new SideParts(this.weightsOf, streams, which, at);
      this.latest = { name, sides: [side("q", head), side("k", kv)] };
    }
    return this.latest.sides;
  }

  token({ text }: { text: string }): FoundToken {
    return this.tokens.find(text);
  }

  private async about(name: string): Promise<Opened> {
    const text = this.texts.get(name);
    if (text === undefined) throw new Problem("ForgottenLookError", "this text is no longer kept; type it again");
    return this.open(name, text);
  }

  private async open(name: string, text: string): Promise<Opened> {
    const known = this.opened.get(name);
    const opened = known ?? (await this.read(name, text));
    this.opened.delete(name);
    this.opened.set(name, opened); // the latest last
    this.texts.set(name, text);
    if (this.opened.size > KEPT_LOOKS) this.opened.delete(this.opened.keys().next().value!);
    return opened;
  }

  private async read(name: string, text: string): Promise<Opened> {
    if (!text.trim()) throw new Problem("InputError", "this text is empty; type a sentence");
    const all = this.tokens.ids(text);
    const ids = all.slice(0, this.card.longest);
    const outputs = await this.graph.run(
      ids,
      undefined,
      this.graph.outputs.filter((name) => !OF_STREAM.test(name)),
    );
    const parts = new Map(this.card.model.sites.map((site) => [site.name, this.partsOf(site, outputs, ids.length)]));
    const side = Math.min(ids.length, THUMBNAIL_SIDE);
    const measured = this.card.model.sites.map((site) => measureSite(parts.get(site.name)!, site, ids, side));
    this.card.model.sites.forEach((site, at) => (parts.get(site.name)!.logsumexp = measured[at].logsumexp));
    const { questions } = this.card.model;
    const counts = answerable(
      ids,
      this.card.model.sites.every((site) => site.causal),
    );
    const look: Look = {
      schema_version: this.card.model.schema_version,
      look: name,
      text,
      tokens: this.tokens.cards(ids, text),
      written: [],
      read: ids.length,
      length: all.length,
      asked: questions.map((question) => counts[question.name] ?? 0),
      scores: joined(questions.flatMap((question) => measured.map((site) => site.scores[question.name]))),
      thumbnails: joinedBytes(measured.map((site) => site.thumbnails)),
      side,
      streams: {},
      sides: {},
      media: null,
      pixels: null,
      waveform: null,
    };
    return { look, ids, outputs, parts, streams: null };
  }

  private partsOf(site: SiteCard, outputs: Outputs, length: number): Parts {
    const window = site.window ?? Infinity;
    const runs = Int32Array.from({ length: 2 * length }, (_, at) => {
      const row = at >> 1;
      if (at % 2) return site.causal ? row + 1 : Math.min(length, row + window);
      return Math.max(0, row + 1 - window);
    });
    const sizes = { heads: site.n_heads, kvHeads: site.n_kv_heads, queries: length, keys: length, width: site.d_head };
    const [q, k] = [outputs[`q ${site.name}`], outputs[`k ${site.name}`]];
    return { ...this.card.scores[site.name], ...sizes, q, k, runs, logsumexp: new Float32Array(0) };
  }

  private factors(opened: Opened, site: SiteCard, head: number, wanted: WeightsRequest): Factors {
    if (wanted.measure === "row") {
      const largest = rowMaxima(opened.parts.get(site.name)!, head, wanted.aside ? 1 : 0);
      return { byRow: largest.map((weight) => (weight > 0 ? 1 / weight : 0)) };
    }
    if (wanted.measure !== "value") return {};
    const [length, kv] = [opened.ids.length, Math.floor((head * site.n_kv_heads) / site.n_heads)];
    return { byKey: opened.outputs[`norms ${site.name}`].subarray(kv * length, (kv + 1) * length) };
  }

  /** Every head's share of the logit of a token, less that of another. */
  private shares(outputs: Outputs, look: Look, wanted: AttributionRequest) {
    const { sites, d_model } = this.card.model;
    const { why_not, note, scales } = this.card.attribution;
    const logits = new Float32Array(sites.reduce((sum, site) => sum + site.n_heads, 0)).fill(NaN);
    if (why_not) return { toward: null, minus: null, note: why_not, logits };
    const { position } = wanted;
    const probabilities = softmax(this.logitsAt(outputs.logits, position));
    const named = (id: number) => ({ id, text: this.tokens.textOf(id), probability: probabilities[id] });
    const toward = named(wanted.toward ?? probabilities.indexOf(Math.max(...probabilities)));
    const minus = typeof wanted.minus === "number" ? named(wanted.minus) : null;
    const at = (name: string) => outputs[name].subarray(position * d_model, (position + 1) * d_model);
    const direction = directionOf(this.weightsOf, [toward.id, minus?.id ?? null], at("residual"), at("normed"));
    let begins = 0;
    for (const site of sites) {
      const z = rowOfHeads(outputs[`z ${site.name}`], site.n_heads, look.tokens.length, position);
      const parts = partsOf(this.weightsOf, site.name, z, site.n_heads)!;
      for (let head = 0; head < site.n_heads; head++)
        logits[begins + head] = shareOf(
          parts.subarray(head * d_model, (head + 1) * d_model),
          direction,
          scales[site.name],
        );
      begins += site.n_heads;
    }
    return { toward, minus, note, logits };
  }

  private async under(opened: Opened, { off, cuts, how }: PredictRequest): Promise<Float32Array> {
    const key = JSON.stringify([opened.look.look, [...off].sort(), cuts, how]);
    const known = this.edited.get(key);
    if (known) return known;
    const place = (name: string) => {
      const [site, head] = this.find(name);
      return { site: this.card.model.sites.indexOf(site), head };
    };
    const edits: HeadEdits = {
      off: off.map(place),
      how,
      cuts: cuts.map(({ head, query, key: read }) => ({ ...place(head), query, key: read })),
    };
    const { logits } = await this.graph.run(opened.ids, edits, ["logits"]);
    this.edited.set(key, logits);
    if (this.edited.size > KEPT_EDITS) this.edited.delete(this.edited.keys().next().value!);
    return logits;
  }

  private logitsAt(logits: Float32Array, position: number): Float32Array {
    const size = this.card.texts.length;
    return logits.subarray(position * size, (position + 1) * size);
  }

  private find(name: string): [SiteCard, number] {
    const dot = name.lastIndexOf(".");
    const site = this.card.model.sites.find((each) => each.name === name.slice(0, dot));
    const head = Number(name.slice(dot + 1));
    if (!site || !(head < site.n_heads)) throw new Problem("HeadNameError", `${name}: this model has no such head`);
    return [site, head];
  }
}

const WHOLE_ROW = { pool: 1, how: "max", measure: "weight", aside: false } as const;
const span = (position: number): [number, number] => [position, position + 1];

/** One position of [head, position, width], all heads one after another. */
function rowOfHeads(z: Float32Array, heads: number, length: number, position: number): Float32Array {
  const width = z.length / heads / length;
  return Float32Array.from({ length: heads * width }, (_, at) => {
    const head = Math.floor(at / width);
    return z[(head * length + position) * width + (at % width)];
  });
}

function joined(arrays: Float32Array[]): Float32Array {
  const all = new Float32Array(arrays.reduce((sum, each) => sum + each.length, 0));
  arrays.reduce((at, each) => (all.set(each, at), at + each.length), 0);
  return all;
}

function joinedBytes(arrays: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(arrays.reduce((sum, each) => sum + each.length, 0));
  arrays.reduce((at, each) => (all.set(each, at), at + each.length), 0);
  return all;
}

function nameOf(text: string): string {
  let hash = 2166136261; // FNV-1a: names a text among those of one page
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 16777619);
  return `${(hash >>> 0).toString(16)}-${text.length}`;
}
