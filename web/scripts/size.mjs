// Refuses a build that is too heavy: scripts and styles gzipped, and the fonts beside them.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const folder = fileURLToPath(new URL("../../src/headscope/app/static/assets/", import.meta.url));
const total = (match, weigh) =>
  readdirSync(folder)
    .filter((name) => match.test(name))
    .reduce((sum, name) => sum + weigh(readFileSync(folder + name)), 0);
const rows = [
  ["scripts and styles, gzipped", total(/\.(js|css)$/, (data) => gzipSync(data).length), 200_000],
  ["fonts", total(/\.woff2$/, (data) => data.length), 150_000],
];
for (const [name, bytes, limit] of rows) {
  console.log(`${name}: ${(bytes / 1000).toFixed(1)} kB of ${limit / 1000} kB`);
  if (bytes > limit) process.exitCode = 1;
}
