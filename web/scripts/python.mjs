// Writes src/headscope/app/python from the npm package pyodide, and checks numpy's wheel against its lock file.
// Run: npm install --no-save pyodide@0.28.3 && node scripts/python.mjs [numpy.whl]
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const VERSION = "0.28.3";
const from = new URL("../node_modules/pyodide/", import.meta.url);
const to = new URL("../../src/headscope/app/python/", import.meta.url);
const read = (name) => readFileSync(new URL(name, from));

if (JSON.parse(read("package.json")).version !== VERSION) throw new Error(`install pyodide@${VERSION} first`);
const loader = read("pyodide.js")
  .toString()
  .replace(/^\/\/# sourceMappingURL.*\n?/m, "");
writeFileSync(new URL("pyodide.js", to), loader);
writeFileSync(new URL("python_stdlib.zip", to), read("python_stdlib.zip"));
for (const name of ["pyodide.asm.js", "pyodide.asm.wasm"])
  writeFileSync(new URL(`${name}.gz`, to), gzipSync(read(name), { level: 9 }));

const { file_name, sha256 } = JSON.parse(read("pyodide-lock.json")).packages.numpy;
const cdn = `https://cdn.jsdelivr.net/pyodide/v${VERSION}/full/${file_name}`;
const wheel = process.argv[2] ? readFileSync(process.argv[2]) : Buffer.from(await (await fetch(cdn)).arrayBuffer());
const found = createHash("sha256").update(wheel).digest("hex");
if (found !== sha256) throw new Error(`${file_name} has the SHA-256 ${found}, not ${sha256}`);
writeFileSync(new URL(file_name, to), wheel);
