// Refuses a build that is too heavy: what a first visit loads, all pages together, and the fonts; gzipped but for the fonts.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const folder = fileURLToPath(new URL("../../src/headscope/app/static/", import.meta.url));
const zipped = (name) => gzipSync(readFileSync(folder + name)).length;
const assets = readdirSync(folder + "assets");

/** A script, what it imports at once, and their styles: `import("…")` is fetched later. */
function loaded(name, seen = new Set()) {
  if (seen.has(name)) return seen;
  seen.add(name);
  const code = readFileSync(`${folder}assets/${name}`, "utf8");
  for (const [, other] of code.matchAll(/(?:from|import)\s*["']\.\/([^"']+\.js)["']/g)) loaded(other, seen);
  return seen;
}

function firstVisit(pages) {
  const scripts = ["index", ...pages].reduce((seen, page) => loaded(`${page}.js`, seen), new Set());
  const styles = [...scripts].map((name) => name.replace(/js$/, "css")).filter((name) => assets.includes(name));
  return [...scripts, ...styles].reduce((sum, name) => sum + zipped(`assets/${name}`), 0);
}

// what only exported files or published sites load
const apart = (name) => /^(saved|published|worker|one-file.*)\./.test(name);
const every = assets.filter((name) => /\.(js|css)$/.test(name) && !apart(name));
const rows = [
  ["a first visit: Start", firstVisit(["StartPage"]), 90_000],
  ["the microscope opened first", firstVisit(["MicroscopePage"]), 200_000],
  ["all pages", every.reduce((sum, name) => sum + zipped(`assets/${name}`), 0), 400_000],
  ["a published site's worker", zipped("assets/worker.js"), 60_000],
  [
    "fonts",
    assets
      .filter((name) => name.endsWith(".woff2"))
      .reduce((sum, name) => sum + readFileSync(`${folder}assets/${name}`).length, 0),
    150_000,
  ],
];
for (const [name, bytes, limit] of rows) {
  console.log(`${name}: ${(bytes / 1000).toFixed(1)} kB of ${limit / 1000} kB`);
  if (bytes > limit) process.exitCode = 1;
}
