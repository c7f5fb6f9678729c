// What the loaded model itself can show at the last stop: a head, a text that it works on, and what is lost without it.
import { EXAMPLES } from "../examples";
import { visible } from "../format";
import { headsOf, scoresIn } from "../microscope/state/look-statistics";
import { streamsOf, tokensOf, type Look, type ModelCard, type Roles, type Source } from "../source/source";

export interface Evidence {
  text: string;
  head: string;
  tokens: string[]; // as they are shown
  opens: boolean; // the first of them is a special token
  reads: number[]; // the head's attention from the last token
  layer: string[]; // the heads of its layer, how many numbers each returns, and what each contributes to the logit, if known
  size: number;
  parts: number[];
  /** the likeliest next tokens with the head and without it; none for a model that predicts none */
  guesses: { text: string; before: number; after: number }[];
}

const ROLE = "induction";
const READS_SO = 0.3; // a head that gives less to what came next is not said to look for it
const TRIED = 3;

/** Heads to try on a text, the most promising first. */
async function candidates(source: Source, model: ModelCard, roles: Roles | null, look: Look): Promise<number[]> {
  const names = headsOf(model).map((head) => head.name);
  const tested = (roles?.findings ?? [])
    .filter((finding) => finding.role === ROLE)
    .sort((a, b) => (b.evidence[0]?.score ?? 0) - (a.evidence[0]?.score ?? 0))
    .map((finding) => names.indexOf(finding.head))
    .filter((head) => head >= 0);
  if (tested.length) return tested.slice(0, TRIED);
  const scores = scoresIn(look, model, ROLE);
  const here = order(scores).filter((head) => scores![head] >= READS_SO);
  if (here.length) return here.slice(0, TRIED);
  const last = (look.written.length || look.tokens.length) - 1;
  const site = model.sites.at(-1)!.name;
  const split = await source.attribution({ look: look.look, site, position: last }).catch(() => null);
  return order(split?.logits.map(Math.abs) ?? null).slice(0, TRIED);
}

const order = (scores: Float32Array | null): number[] =>
  Array.from(scores ?? [], (score, head) => ({ score, head }))
    .filter(({ score }) => Number.isFinite(score))
    .sort((a, b) => b.score - a.score)
    .map(({ head }) => head);

async function tryText(source: Source, model: ModelCard, roles: Roles | null, text: string): Promise<Evidence> {
  const look = await source.look({ text });
  const heads = headsOf(model);
  const tried = await candidates(source, model, roles, look);
  const position = (look.written.length || look.tokens.length) - 1;
  let [head, guesses]: [number, Evidence["guesses"]] = [tried[0] ?? 0, []];
  for (const each of tried) {
    const off = [heads[each].name];
    const asked = { look: look.look, position, off, how: "zero" as const, cuts: [], count: 6 };
    const { guesses: before, without } = await source.predict(asked);
    if (!before.length || !without) continue;
    const found = before.map((one, at) => ({ text: one.text, before: one.probability, after: without[at] }));
    if (!guesses.length || gap(found) > gap(guesses)) [head, guesses] = [each, found];
  }
  const { site, head: row } = heads[head];
  const tokens = tokensOf(look, streamsOf(look, site)[1]);
  const asked = { look: look.look, site: site.name, position };
  const split = await source.attribution(asked).catch(() => null); // no logit of some models can be split over heads
  const [side, last] = [look.side, Math.min(look.side, tokens.length) - 1];
  const seen = (at: number) => (look.thumbnails[(head * side + last) * side + at] / 255) ** 2;
  const first = heads.findIndex((one) => one.site === site);
  return {
    text,
    head: heads[head].name,
    tokens: tokens.map((token) => visible(token.text)),
    opens: tokens[0]?.end == null || tokens[0].start === tokens[0].end,
    reads: tokens.map((_, at) => split?.weights[row * tokens.length + at] ?? seen(at)),
    layer: heads.slice(first, first + site.n_heads).map(({ name }) => name),
    size: site.d_value,
    parts: split?.toward ? Array.from(split.logits.subarray(first, first + site.n_heads)) : [],
    guesses,
  };
}

const gap = ([one]: Evidence["guesses"]) => (one ? one.before - one.after : 0);
/** Whether taking the head away halves the likeliest next token. */
const isLost = ([one]: Evidence["guesses"]) => one !== undefined && one.after < one.before / 2;

/** The first repeating example on which a head is seen to matter; else the one on which it matters most. */
export async function findEvidence(source: Source): Promise<Evidence> {
  const model = await source.model();
  const roles = await source.roles().catch(() => null);
  let best: Evidence | null = null;
  for (const { text } of EXAMPLES.filter((example) => example.by === ROLE).slice(0, 2)) {
    const found = await tryText(source, model, roles, text);
    if (isLost(found.guesses)) return found;
    if (!best || gap(found.guesses) > gap(best.guesses)) best = found;
  }
  return best!;
}

const kept = new WeakMap<Source, Promise<Evidence>>();

/** The same, asked once a source. */
export function evidenceOf(source: Source): Promise<Evidence> {
  const known = kept.get(source) ?? findEvidence(source);
  kept.set(source, known);
  known.catch(() => kept.delete(source));
  return known;
}
