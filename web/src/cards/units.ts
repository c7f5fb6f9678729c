// Bytes, counts, FLOPs and context lengths as text.
import { count, fixed } from "../format";
import { words } from "../words/words";

/** Bytes as a person says them: 128 KiB, 16 GiB. */
export function formatBytes(count: number): string {
  for (const [unit, power] of [
    ["TiB", 40],
    ["GiB", 30],
    ["MiB", 20],
    ["KiB", 10],
  ] as const) {
    const value = count / 2 ** power;
    if (value >= 1) return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : fixed(value, 1)} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

/** Bytes in powers of a thousand: 137 GB, 6.3 MB. */
export function decimalBytes(count: number): string {
  for (const [unit, factor] of [
    ["TB", 1e12],
    ["GB", 1e9],
    ["MB", 1e6],
  ] as const) {
    const value = count / factor;
    if (value >= 1) return `${fixed(value, value >= 100 || Number.isInteger(value) ? 0 : 1)} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

/** A count as a person says it: 124 M, 8.03 B. */
export function formatCount(count: number | null): string {
  if (count === null) return words.cards.notKnown;
  for (const [unit, factor] of [
    ["T", 1e12],
    ["B", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const)
    if (count >= factor) return `${fixed(count / factor, count / factor >= 100 ? 0 : 2)} ${unit}`;
  return String(count);
}

export function formatFlops(count: number): string {
  for (const [unit, factor] of [
    ["PFLOP", 1e15],
    ["TFLOP", 1e12],
    ["GFLOP", 1e9],
    ["MFLOP", 1e6],
  ] as const)
    if (count >= factor) return `${fixed(count / factor, count / factor >= 10 ? 0 : 1)} ${unit}`;
  return `${count} FLOP`;
}

/** 8 k, 128 k, 1 M; lengths that are not powers stay whole. */
export function formatLength(length: number): string {
  if (length >= 2 ** 20 && length % 2 ** 20 === 0) return `${length / 2 ** 20} M`;
  return length >= 1024 && length % 1024 === 0 ? `${length / 1024} k` : count(length);
}

export function nearestLength(lengths: number[], wanted: number): number {
  let best = 0;
  lengths.forEach((length, k) => {
    if (Math.abs(Math.log(length / wanted)) < Math.abs(Math.log(lengths[best] / wanted))) best = k;
  });
  return best;
}

/** Runs of layers that look alike: [how far they look back, how many]. */
export function runs(windows: (number | null)[]): { window: number | null; from: number; count: number }[] {
  const found: { window: number | null; from: number; count: number }[] = [];
  windows.forEach((window, layer) => {
    const last = found[found.length - 1];
    if (last && last.window === window) last.count++;
    else found.push({ window, from: layer, count: 1 });
  });
  return found;
}

/** Parts that belong together on the bar, in the card's order. */
export const TINTS: Record<string, string> = {
  "token embeddings": "quiet",
  "place embeddings": "quiet",
  W_Q: "ink",
  W_K: "ink-2",
  W_V: "ink-2",
  "W_K and W_V, down": "ink-2",
  "W_K and W_V, up": "ink-2",
  W_O: "ink-3",
  "attention, other": "ink-3",
  FFN: "line-2",
  experts: "line",
  "shared experts": "line-2",
  router: "control",
  norms: "control",
  unembedding: "quiet",
};
