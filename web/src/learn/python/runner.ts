// Run a reader's code in Python, in a worker inside an iframe without an origin. See docs/security.md.

export const LIMITS = { seconds: 10, output: 20_000, megabytes: 512, code: 20_000 };
const STARTING = 120_000; // milliseconds

const FILES = {
  "pyodide.js": "pyodide.js",
  "pyodide.asm.js": "pyodide.asm.js.gz",
  "pyodide.asm.wasm": "pyodide.asm.wasm.gz",
  "python_stdlib.zip": "python_stdlib.zip",
  numpy: "numpy-2.2.5-cp313-cp313-pyodide_2025_0_wasm32.whl",
};
const LOCK = {
  info: { abi_version: "2025_0", arch: "wasm32", platform: "emscripten_4_0_9", python: "3.13.2", version: "0.28.3" },
  packages: {},
};

export interface Ran {
  output: string;
  cut: boolean; // there was more output than is kept
  ended: "done" | "error" | "time" | "stopped" | "failed";
}
type Told = { kind: "open" | "ready" } | { kind: "failed"; output: string } | ({ kind: "ran"; run: number } & Ran);
interface Loaded {
  worker: string;
  files: Record<string, ArrayBuffer>;
}

let loading: Promise<Loaded> | null = null;

async function file(name: string): Promise<ArrayBuffer> {
  const response = await fetch(`./python/${name}`);
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  if (!name.endsWith(".gz")) return response.arrayBuffer();
  return new Response(response.body!.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function load(): Promise<Loaded> {
  const names = Object.keys(FILES) as (keyof typeof FILES)[];
  const [worker, ...read] = await Promise.all([file("worker.js"), ...names.map((name) => file(FILES[name]))]);
  return {
    worker: new TextDecoder().decode(worker),
    files: Object.fromEntries(names.map((name, at) => [name, read[at]])),
  };
}

export class PythonRunner {
  ready = false;
  private frame: HTMLIFrameElement | null = null;
  private runs = 0;
  private answer: ((ran: Ran) => void) | null = null;
  private waiting: { opened: () => void; prepared: () => void } | null = null;
  private starting: Promise<boolean> | null = null; // Python, once it is ready; false where it was let go before
  private timer = 0;

  /** Run code; whatever ends it, there is an answer. The first run loads Python. */
  async run(code: string, begun: () => void): Promise<Ran> {
    const ended = new Promise<Ran>((resolve) => (this.answer = resolve));
    try {
      const ready = await Promise.race([(this.starting ??= this.start()), ended]);
      if (ready === true && this.answer) {
        begun();
        this.runs += 1;
        this.post({ code, run: this.runs });
        this.limit(LIMITS.seconds * 1000, "time");
      }
    } catch (error) {
      this.end("failed", String(error));
    }
    return ended;
  }

  /** Stop what runs, and let Python go with all its memory. */
  end(how: "stopped" | "time" | "failed" = "stopped", output = ""): void {
    this.close();
    this.finish({ output, cut: false, ended: how });
  }

  private close(): void {
    window.removeEventListener("message", this.hear);
    this.frame?.remove();
    [this.frame, this.starting, this.waiting, this.ready] = [null, null, null, false];
  }

  private async start(): Promise<boolean> {
    const { worker, files } = await (loading ??= load().catch((error) => {
      loading = null;
      throw error;
    }));
    if (!this.starting) return false;
    this.limit(STARTING, "failed");
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    frame.setAttribute("aria-hidden", "true");
    frame.tabIndex = -1;
    frame.hidden = true;
    frame.title = "Python";
    const opened = new Promise<void>((resolve) => {
      this.waiting = { opened: resolve, prepared: () => {} };
    });
    window.addEventListener("message", this.hear);
    frame.src = "./python/sandbox.html";
    this.frame = frame;
    document.body.append(frame);
    await opened;
    const prepared = new Promise<void>((resolve) => {
      if (this.waiting) this.waiting.prepared = resolve;
    });
    this.post({ start: worker, files, lock: LOCK });
    await prepared;
    if (this.frame !== frame) return false;
    clearTimeout(this.timer);
    this.ready = true;
    return true;
  }

  private post(message: unknown): void {
    this.frame?.contentWindow?.postMessage(message, "*");
  }

  private hear = (event: MessageEvent<Told>): void => {
    if (!this.frame || event.source !== this.frame.contentWindow) return;
    const told = event.data;
    if (told.kind === "open") this.waiting?.opened();
    else if (told.kind === "ready") this.waiting?.prepared();
    else if (told.kind === "failed") this.end("failed", String(told.output).slice(0, LIMITS.output));
    else if (told.kind === "ran" && told.run === this.runs) {
      const output = String(told.output).slice(0, LIMITS.output);
      this.finish({ output, cut: Boolean(told.cut), ended: told.ended === "error" ? "error" : "done" });
      this.close(); // with all that the code has left there; the next run has a Python of its own
      this.starting = this.start();
      this.starting.catch(() => this.close());
    }
  };

  private limit(milliseconds: number, how: "time" | "failed"): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.end(how), milliseconds);
  }

  private finish(ran: Ran): void {
    clearTimeout(this.timer);
    this.answer?.(ran);
    this.answer = null;
  }
}
