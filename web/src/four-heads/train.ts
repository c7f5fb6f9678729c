// What Four heads trains, in a worker of the page.
import { addressOf, isOneFile } from "../source/files-of-page";
import { Problem } from "../source/problem";
import type { Asked, Told } from "./craft-heads";

type Message = Told | { problem: { kind: string; message: string } };

let idle: Worker | null = null;

/** Training as it happens. */
export async function* train(asked: Asked, signal: AbortSignal): AsyncGenerator<Told> {
  const worker = idle ?? (await startWorker());
  idle = null;
  const said: Message[] = [];
  let wake = () => {};
  worker.onmessage = ({ data }: MessageEvent<Message>) => {
    said.push(data);
    wake();
  };
  worker.onerror = ({ message }) => {
    said.push({ problem: { kind: "Failed", message } });
    wake();
  };
  signal.addEventListener("abort", () => wake());
  worker.postMessage(asked);
  try {
    for (;;) {
      signal.throwIfAborted();
      const told = said.shift();
      if (!told) await new Promise<void>((resolve) => (wake = resolve));
      else if ("problem" in told) throw new Problem(told.problem.kind, told.problem.message);
      else {
        if ("done" in told) idle = worker;
        yield told;
        if ("done" in told) return;
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
