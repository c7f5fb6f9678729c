// Short labels for sites that are named by long paths: down_blocks.0.attentions.1.transformer_blocks.0.attn2.

const FITS = 10; // letters that fit beside a row of heads
const MOST = 15;

/** Labels of sites: words that stand in every path are left out where paths are long, then the middle. */
export function siteLabels(names: string[]): string[] {
  if (names.every((name) => name.length <= FITS)) return names;
  const paths = names.map((name) => name.split("."));
  const shared = new Set(paths[0].filter((word) => !/^\d+$/.test(word) && paths.every((path) => path.includes(word))));
  const short = paths.map((path) => path.filter((word) => !shared.has(word)).join("."));
  const unique = new Set(short).size === names.length && short.every(Boolean);
  return (unique ? short : names).map((label) =>
    label.length <= MOST ? label : `${label.slice(0, 5)}…${label.slice(5 - MOST + 1)}`,
  );
}

/** Room for them beside the rows, in pixels. */
export function labelRoom(labels: string[]): number {
  return 10 + Math.ceil(5.4 * Math.max(0, ...labels.map((label) => label.length)));
}
