// Trains the heads of Four heads beside the page. Stopped by ending this worker.
import { craftHeads, type Asked } from "./craft-heads";

onmessage = ({ data }: MessageEvent<Asked>) => {
  try {
    for (const told of craftHeads(data)) postMessage(told);
  } catch (error) {
    const { kind, message } = error as { kind?: string; message?: string };
    postMessage({ problem: { kind: kind ?? "Failed", message: message ?? String(error) } });
  }
};
