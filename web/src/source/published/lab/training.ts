// Trains beside the page: the heads of Four heads, and the arms of One or many. Stopped by ending this worker.
import { craftHeads } from "./craft-heads";
import { oneOrMany } from "./one-or-many/experiment";

export const TRAINED = { "lab/craft": craftHeads, "lab/one-or-many": oneOrMany } as const;
export interface TrainingRequest {
  path: keyof typeof TRAINED;
  body: unknown;
}

onmessage = ({ data: { path, body } }: MessageEvent<TrainingRequest>) => {
  try {
    for (const event of TRAINED[path](body as never)) postMessage({ event });
    postMessage({ done: true });
  } catch (error) {
    const { kind, message } = error as { kind?: string; message?: string };
    postMessage({ problem: { kind: kind ?? "Failed", message: message ?? String(error) } });
  }
};
