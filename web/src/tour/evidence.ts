// What the loaded model itself can show at the last stops: a head, a text that it works on, and what is lost without it.
import { EXAMPLES } from "../examples";
import { argmax, headsOf, scoresIn } from "../microscope/state/look-statistics";
import type { Look, ModelCard, Roles, Source } from "../source/source";

/** Why this head: it earned the role in the tests; it reads so on this text; or it pushes the prediction most. */
export type Why = "tested" | "here" | "pushes";

export interface Evidence {
  model: ModelCard;
  heads: string[];
  named: number | null; // how many heads have a role; null where they were not tested
  resting: number; // how many of those only rest on the first token
  look: Look;
  head: string;
  why: Why;
  reads: string; // the token that the head reads most from the last one
  /** the likeliest next token with the head and without it; null for a model that predicts none */
  lost: { token: string; before: number; after: number } | null;
}

const ROLE = "induction";
const READS_SO = 0.3; // a head that gives less to what came next is not said to look for it
const TRIED = 3;

/** Heads to try on a text, the most promising first. */
async function candidates(source: Source, model: ModelCard, roles: Roles | null, look: Look): Promise<[number[], Why]> {
  const names = headsOf(model).map((head) => head.name);
  const tested = (roles?.findings ?? [])
    .filter((finding) => finding.role === ROLE)
    .sort((a, b) => (b.evidence[0]?.score ?? 0) - (a.evidence[0]?.score ?? 0))
    .map((finding) => names.indexOf(finding.head))
    .filter((head) => head >= 0);
  if (tested.length) return [tested.slice(0, TRIED), "tested"];
  const scores = scoresIn(look, model, ROLE);
  const here = order(scores).filter((head) => scores![head] >= READS_SO);
  if (here.length) return [here.slice(0, TRIED), "here"];
  const last = (look.written.length || look.tokens.length) - 1;
  const site = model.sites.at(-1)!.name;
  const split = await source.attribution({ look: look.look, site, position: last }).catch(() => null);
  return [order(split?.logits.map(Math.abs) ?? null).slice(0, TRIED), "pushes"];
}

const order = (scores: Float32Array | null): number[] =>
  Array.from(scores ?? [], (score, head) => ({ score, head }))
    .filter(({ score }) => Number.isFinite(score))
    .sort((a, b) => b.score - a.score)
    .map(({ head }) => head);

/** What one head reads most from the last token, on a text short enough for its thumbnail to show every token. */
function readsMost(look: Look, head: number): string {
  const side = look.side;
  const last = Math.min(side, look.tokens.length) - 1;
  const row = look.thumbnails.subarray((head * side + last) * side, (head * side + last) * side + last + 1);
  return look.tokens[argmax(Float32Array.from(row))]?.text ?? "";
}

async function tryText(source: Source, model: ModelCard, roles: Roles | null, text: string): Promise<Evidence> {
  const look = await source.look({ text });
  const heads = headsOf(model).map((head) => head.name);
  const [tried, why] = await candidates(source, model, roles, look);
  const found: Evidence = {
    model,
    heads,
    named: roles?.state === "tested" ? heads.length - roles.without : null,
    resting: roles?.resting ?? 0,
    look,
    head: heads[tried[0] ?? 0],
    why,
    reads: readsMost(look, tried[0] ?? 0),
    lost: null,
  };
  const position = (look.written.length || look.tokens.length) - 1;
  for (const head of tried) {
    const asked = {
      look: look.look,
      position,
      off: [heads[head]],
      how: "zero" as const,
      cuts: [],
      count: 6,
      sampling: null,
    };
    const { guesses, without } = await source.predict(asked);
    if (!guesses.length || !without) continue;
    const lost = { token: guesses[0].text, before: guesses[0].probability, after: without[0] };
    if (!found.lost || lost.before - lost.after > found.lost.before - found.lost.after)
      Object.assign(found, { lost, head: heads[head], reads: readsMost(look, head) });
  }
  return found;
}

/** Whether taking the head away halves the likeliest next token. */
export const isLost = ({ lost }: Pick<Evidence, "lost">): boolean => lost !== null && lost.after < lost.before / 2;

/** The first repeating example on which a head is seen to matter; else the one on which it matters most. */
export async function findEvidence(source: Source): Promise<Evidence> {
  const model = await source.model();
  const roles = await source.roles().catch(() => null);
  let best: Evidence | null = null;
  const gap = ({ lost }: Evidence) => (lost ? lost.before - lost.after : 0);
  for (const { text } of EXAMPLES.filter((example) => example.by === ROLE).slice(0, 2)) {
    const found = await tryText(source, model, roles, text);
    if (isLost(found)) return found;
    if (!best || gap(found) > gap(best)) best = found;
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
