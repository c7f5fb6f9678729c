// The shares of one word among four others, and what the page says to them.
import type { words } from "../words/words";

export const [ANIMAL, ROAD, BECAUSE, TIRED] = [0, 1, 2, 3];
export const FIRST = [0.14, 0.62, 0.1, 0.14];
export const TWO = [
  [0.84, 0.07, 0.03, 0.06],
  [0.25, 0.25, 0.25, 0.25],
];
const KNOWN = 0.65; // from here on a head answers its question

/** One share changes; the others keep their proportions and give way, so that the sum stays 1. */
export function withShare(shares: number[], at: number, to: number): number[] {
  const wanted = Math.max(0, Math.min(1, to));
  const rest = shares.reduce((sum, share, k) => (k === at ? sum : sum + share), 0);
  return shares.map((share, k) =>
    k === at ? wanted : rest > 1e-6 ? (share / rest) * (1 - wanted) : (1 - wanted) / (shares.length - 1),
  );
}

/** Shares in hundredths that add up to exactly 1: rounded down, and what is missing goes to the largest remainders. */
export function printed(shares: number[]): number[] {
  const down = shares.map((share) => Math.floor(share * 100 + 1e-6));
  const missing = 100 - down.reduce((sum, each) => sum + each, 0);
  const order = shares
    .map((share, at) => ({ at, rest: share * 100 - down[at] }))
    .sort((a, b) => b.rest - a.rest || a.at - b.at);
  for (let k = 0; k < missing; k++) down[order[k % shares.length].at]++;
  return down.map((each) => each / 100);
}

/** What the student has done so far. */
export interface Progress {
  heads: number[][];
  touched: boolean;
  who: boolean; // animal was found
  how: boolean; // then tired
  blend: boolean; // both at once
}

export const BEGINNING: Progress = { heads: [FIRST], touched: false, who: false, how: false, blend: false };

/** After a share was moved: what has been found stays found. */
export function moved(before: Progress, heads: number[][]): Progress {
  const [first] = heads;
  const who = before.who || first[ANIMAL] >= KNOWN;
  return {
    heads,
    touched: true,
    who,
    how: before.how || (who && first[TIRED] >= 0.62),
    blend: before.blend || (who && Math.min(first[ANIMAL], first[TIRED]) >= 0.34),
  };
}

export const answered = ({ heads }: Progress) => ({
  who: heads.some((shares) => shares[ANIMAL] >= KNOWN),
  how: heads.some((shares) => shares[TIRED] >= KNOWN),
});

/** The second head is offered after the blend; who drags past it quickly still gets it. */
export const offersSecond = (progress: Progress): boolean =>
  progress.heads.length === 1 && (progress.blend || progress.how);

type Voice = (typeof words)["start"]["voice"];

/** The key of the sentence that fits, and the word that goes into it. */
export function voiceOf(progress: Progress): { key: keyof Voice; word: number } {
  const [first] = progress.heads;
  const word = first.indexOf(Math.max(...first));
  return { key: keyOf(progress, first, word), word };
}

function keyOf(progress: Progress, first: number[], top: number): keyof Voice {
  if (progress.heads.length > 1) {
    const { who, how } = answered(progress);
    return who && how ? "both" : who ? "second" : "each";
  }
  if (!progress.touched) return "untouched";
  if (!progress.who) {
    if (top === ROAD && first[ROAD] > 0.5) return "road";
    if (first[TIRED] >= 0.62) return "tiredFirst";
    return top === BECAUSE && first[BECAUSE] > 0.5 ? "because" : "onTheWay";
  }
  if (Math.min(first[ANIMAL], first[TIRED]) >= 0.34) return "blend";
  if (first[ANIMAL] >= 0.62) return progress.blend || progress.how ? "whoAgain" : "who";
  return first[TIRED] >= 0.62 ? "how" : "between";
}

/** Start's shares for the tour's five words: "was", which Start does not ask about, takes a little from each. */
export function carried([animal, road, because, tired]: number[]): number[] {
  return [animal * 0.95, road * 0.95, because * 0.95, 0.05, tired * 0.95];
}
