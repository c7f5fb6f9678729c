// Builds again, elsewhere, and compares with what is committed: the types and every file of the static folder.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("..", import.meta.url));
const kept = join(web, "../src/headscope/app/static");
const types = join(web, "src/api.ts");
const fresh = mkdtempSync(join(tmpdir(), "headscope-web-"));
const files = (folder) =>
  readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => relative(folder, path))
    .sort();

const before = readFileSync(types);
execFileSync("node", ["scripts/types.mjs"], { cwd: web });
const differ = before.equals(readFileSync(types)) ? [] : ["web/src/api.ts"];
for (const mode of [["--emptyOutDir"], ["--mode", "saved"], ["--mode", "one-file"]])
  execFileSync("npx", ["vite", "build", "--outDir", fresh, "--logLevel", "error", ...mode], { cwd: web });
const names = new Set([...files(kept), ...files(fresh)]);
for (const name of names) {
  const both = files(kept).includes(name) && files(fresh).includes(name);
  if (!both || !readFileSync(join(kept, name)).equals(readFileSync(join(fresh, name)))) differ.push(`static/${name}`);
}
rmSync(fresh, { recursive: true });
if (differ.length) {
  console.error(`Not what the sources give: ${differ.join(", ")}. Run \`npm run web\` and commit the result.`);
  process.exitCode = 1;
} else console.log(`${names.size} built files and the types are what the sources give.`);
