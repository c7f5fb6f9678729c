// Trains the heads of Four heads beside the page. Stopped by ending this worker.
import { craftHeads } from "./craft-heads";

onmessage = ({ data }: MessageEvent<Parameters<typeof craftHeads>[0]>) => {
  try {
    for (const event of craftHeads(data)) postMessage({ event });
    postMessage({ done: true });
  } catch (error) {
    const { kind, message } = error as { kind?: string; message?: string };
    postMessage({ problem: { kind: kind ?? "Failed", message: message ?? String(error) } });
  }
};
