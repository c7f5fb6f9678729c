// Statistics of a look: scores of all heads, differences between two looks, heads with similar patterns.
import type { Look, ModelCard, SiteCard } from "../../source/source";

export interface HeadInfo {
  name: string;
  site: SiteCard;
  siteIndex: number;
  head: number;
}

export function headsOf(model: ModelCard | null): HeadInfo[] {
  return (model?.sites ?? []).flatMap((site, siteIndex) =>
    Array.from({ length: site.n_heads }, (_, head) => ({ name: `${site.name}.${head}`, site, siteIndex, head })),
  );
}

/** How many heads a look has: a picture may reach parts of a model that no text has reached. */
export function headsIn(look: Look): number {
  return look.thumbnails.length / (look.side * look.side);
}

/** A head that this look has reached: the wanted one, or the first. */
export function reachedHead(look: Look, wanted: number): number {
  const cells = look.side * look.side;
  const reached = (head: number) => look.thumbnails.subarray(head * cells, (head + 1) * cells).some((cell) => cell > 0);
  if (wanted < 0 || reached(wanted)) return wanted;
  const first = Array.from({ length: headsIn(look) }, (_, head) => head).findIndex(reached);
  return first < 0 ? wanted : first;
}

/** The head with the largest answer; the first where nobody could answer. */
export function argmax(answers: Float32Array | null): number {
  let found = 0;
  answers?.forEach((answer, head) => {
    if (answer > (answers[found] || -1)) found = head;
  });
  return found;
}

/** How much each head reads one token from another, as far as its thumbnail shows every token. */
export function weightsBetween(look: Look, query: number, key: number): Float32Array | null {
  if (key < 0 || look.side < look.tokens.length) return null;
  const cells = look.side * look.side;
  return Float32Array.from(
    { length: look.thumbnails.length / cells },
    (_, head) => look.thumbnails[head * cells + query * look.side + key],
  );
}

/** All heads' answers to one of the model's questions. */
export function scoresIn(look: Look, model: ModelCard, question: string): Float32Array | null {
  const index = model.questions.findIndex((card) => card.name === question);
  const heads = model.sites.reduce((sum, site) => sum + site.n_heads, 0);
  return index < 0 ? null : look.scores.subarray(index * heads, (index + 1) * heads);
}

/** How differently two looks' heads answer: the largest difference among the questions about shares. */
export function largestDifferences(a: Look, b: Look, model: ModelCard): Float32Array {
  const heads = model.sites.reduce((sum, site) => sum + site.n_heads, 0);
  return Float32Array.from({ length: heads }, (_, head) => {
    const differences = model.questions
      .flatMap((question, index) =>
        question.unit === "share" ? [Math.abs(a.scores[index * heads + head] - b.scores[index * heads + head])] : [],
      )
      .filter(Number.isFinite);
    return differences.length ? Math.max(...differences) : NaN;
  });
}

export interface SimilarHead {
  head: number;
  cosine: number; // the cosine of the two patterns, 0 to 1
}

/** The heads whose patterns on this text are most like one head's; what lies on the first token does not count. */
export function similarHeads(look: Look, head: number, most: number, least = 0.7): SimilarHead[] {
  const cells = look.side * look.side;
  const weight = (of: number, cell: number) =>
    cell % look.side === 0 ? 0 : (look.thumbnails[of * cells + cell] / 255) ** 2;
  const product = (a: number, b: number) => {
    let sum = 0;
    for (let cell = 0; cell < cells; cell++) sum += weight(a, cell) * weight(b, cell);
    return sum;
  };
  const mine = product(head, head);
  if (!(mine > 0)) return [];
  return Array.from({ length: look.thumbnails.length / cells }, (_, other) => other)
    .filter((other) => other !== head)
    .map((other) => ({
      head: other,
      cosine: product(head, other) / Math.sqrt(mine * product(other, other) || Infinity),
    }))
    .filter(({ cosine }) => cosine >= least)
    .sort((a, b) => b.cosine - a.cosine)
    .slice(0, most);
}
