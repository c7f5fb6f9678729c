// What Four heads trains in a published site: in a worker, told as the server tells it.
import type { StreamEvent } from "../../event-stream";
import { addressOf, isOneFile } from "../../files-of-page";
import { Problem } from "../../problem";

type Told = { event: StreamEvent<unknown> } | { done: true } | { problem: { kind: string; message: string } };

let idle: Worker | null = null;

/** Training as it happens; null for what is not trained here. */
export function trained(path: string, body: unknown, signal?: AbortSignal): AsyncIterable<StreamEvent<unknown>> | null {
  return path === "lab/craft" ? train(body, signal) : null;
}

async function* train(asked: unknown, signal?: AbortSignal): AsyncGenerator<StreamEvent<unknown>> {
  const worker = idle ?? (await startWorker());
  idle = null;
  const said: Told[] = [];
  let wake = () => {};
  worker.onmessage = ({ data }: MessageEvent<Told>) => {
    said.push(data);
    wake();
  };
  worker.onerror = ({ message }) => {
    said.push({ problem: { kind: "Failed", message } });
    wake();
  };
  signal?.addEventListener("abort", () => wake());
  worker.postMessage(asked);
  try {
    for (;;) {
      signal?.throwIfAborted();
      const told = said.shift();
      if (!told) await new Promise<void>((resolve) => (wake = resolve));
      else if ("event" in told) yield told.event;
      else if ("problem" in told) throw new Problem(told.problem.kind, told.problem.message);
      else {
        idle = worker;
        return;
      }
    }
  } finally {
    if (idle !== worker) worker.terminate();
  }
}

async function startWorker(): Promise<Worker> {
  if (isOneFile()) return new Worker(await addressOf("assets/one-file-training.js"), { name: "training" });
  return new Worker(new URL("./training.ts", import.meta.url), { type: "module", name: "training" });
}
