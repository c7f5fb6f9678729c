// Python in a worker without an origin. Everything it needs comes in one message; after that it can reach nothing.
"use strict";
{
  const send = self.postMessage.bind(self);
  const KEPT = 20_000; // characters of output
  const PAGES = 8192; // of 64 KiB: 512 MB
  const BASE = "https://python.invalid/"; // never asked: its files are in the message
  let python = null;
  let output = "";
  let cut = false;

  const write = (text) => {
    if (output.length < KEPT) output += text.slice(0, KEPT - output.length);
    if (output.length >= KEPT) cut = true;
  };

  /** Python's memory can grow to 512 MB; more is a MemoryError in the code. */
  function boundMemory() {
    const Memory = WebAssembly.Memory;
    WebAssembly.Memory = function (wanted) {
      return new Memory({ ...wanted, maximum: Math.min(wanted.maximum ?? PAGES, PAGES) });
    };
  }

  /** What the worker does not need any more; the document's policy forbids connections in any case. */
  function closeDoors() {
    const doors = [
      ...["fetch", "XMLHttpRequest", "WebSocket", "WebTransport", "EventSource", "importScripts", "postMessage", "close"],
      ...["Worker", "SharedWorker", "BroadcastChannel", "MessageChannel", "indexedDB", "caches", "navigator", "location"],
    ];
    for (const door of doors)
      for (let owner = self; owner; owner = Object.getPrototypeOf(owner)) {
        try {
          delete owner[door];
        } catch {
          // a property that cannot be removed
        }
      }
  }

  async function start({ files, lock }) {
    boundMemory();
    self.fetch = async (url) => {
      const name = String(url).split("/").pop().split("?")[0];
      const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
      return new Response(files[name], { headers: { "Content-Type": type } });
    };
    for (const name of ["pyodide.asm.js", "pyodide.js"])
      importScripts(URL.createObjectURL(new Blob([files[name]], { type: "text/javascript" })));
    python = await self.loadPyodide({
      indexURL: BASE,
      lockFileContents: lock,
      jsglobals: { Object, Array, console: { log() {}, warn() {}, error() {} } },
      stdout: (line) => write(`${line}\n`),
      stderr: (line) => write(`${line}\n`),
    });
    python.unpackArchive(files.numpy, "wheel");
    python.runPython("import numpy");
    closeDoors();
    send({ kind: "ready" });
  }

  /** A traceback from the reader's own lines on. */
  function told(error) {
    const text = String(error.message ?? error);
    const at = text.indexOf('File "<your code>"');
    return at < 0 ? text : `Traceback:\n  ${text.slice(at)}`;
  }

  function run({ code, run: number }) {
    [output, cut] = ["", false];
    const globals = python.toPy({ __name__: "__main__" });
    let ended = "done";
    try {
      python.runPython(code, { globals, filename: "<your code>" });
    } catch (error) {
      ended = "error";
      write(told(error));
    }
    globals.destroy();
    send({ kind: "ran", run: number, output, cut, ended });
  }

  self.addEventListener("message", ({ data }) => {
    if (data.files) start(data).catch((error) => send({ kind: "failed", output: String(error.message ?? error) }));
    else if (data.code !== undefined && python) run(data);
  });
}
