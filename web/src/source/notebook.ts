// Source of a notebook widget: requests go over a message channel to the kernel (app/export/widget.py answers).
import { Problem } from "./problem";
import { tileFrom, importanceFrom, lookFrom, attributionFrom, receivedFrom } from "./decode";
import {
  type CutPath,
  type FoundToken,
  type ModelCard,
  type PaperClaim,
  type Prediction,
  type Roles,
  type Source,
  type Lens,
  type Patching,
  type Trace,
  type Why,
} from "./source";

interface Answer {
  id: number;
  value?: unknown;
  bytes?: ArrayBuffer;
  problem?: { kind: string; message: string };
}

/** Sends numbered questions and hands each answer to the one who asked; the host may answer in any order. */
export function requester(port: Pick<MessagePort, "postMessage" | "onmessage">) {
  const waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (error: Error) => void }>();
  let last = 0;
  port.onmessage = ({ data }: MessageEvent<Answer>) => {
    const asked = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.problem) asked?.reject(new Problem(data.problem.kind, data.problem.message));
    else asked?.resolve(data);
  };
  return (ask: string, body: unknown = null): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      port.postMessage({ id, ask, body });
    });
}

export function notebookSource(first: string, ask: ReturnType<typeof requester>): Source {
  const bytes = async (what: string, wanted: unknown) => (await ask(what, wanted)).bytes!;
  const value = async <StreamEvent>(what: string, wanted?: unknown) => (await ask(what, wanted)).value as StreamEvent;
  return {
    live: true,
    first,
    model: () => value<ModelCard>("model"),
    look: async (wanted) =>
      lookFrom(
        await ("media" in wanted
          ? bytes("media", { data: wanted.media.data, text: wanted.media.text })
          : bytes("look", wanted)),
      ),
    weights: async (wanted) => tileFrom(await bytes("weights", wanted)),
    attribution: async (wanted) => attributionFrom(await bytes("attribution", wanted)),
    token: (wanted) => value<FoundToken>("token", wanted),
    predict: (wanted) => value<Prediction>("predict", wanted),
    why: (wanted) => value<Why>("why", wanted),
    cutPath: (wanted) => value<CutPath>("cut-path", wanted),
    trace: (wanted) => value<Trace>("trace", wanted),
    lens: (wanted) => value<Lens>("lens", wanted),
    patching: (wanted) => value<Patching>("patching", wanted),
    received: async (wanted) => receivedFrom(await bytes("received", wanted)),
    importance: async (wanted) => importanceFrom(await bytes("importance", wanted)),
    featured: () => value<PaperClaim[]>("featured"),
    roles: () => value<Roles>("roles"),
    testHeads: () => value<Roles>("testHeads"),
  };
}

/** Open the channel to the frame's owner. */
export function channel(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  parent.postMessage("headscope", "*", [port2]);
  return port1;
}
