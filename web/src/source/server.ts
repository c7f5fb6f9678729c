// The server's page: every answer is one request, and the last few dozen are remembered.
import { tileFrom, importanceFrom, lookFrom, attributionFrom } from "./decode";
import {
  Problem,
  type FoundToken,
  type ModelCard,
  type Models,
  type PaperClaim,
  type Prediction,
  type Progress,
  type Roles,
  type Source,
} from "./source";

const KEPT = 200;
const STOPPED = "The program on this machine has stopped. What you see is the last good picture.";

export async function askServer(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`./api/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem("Stopped", STOPPED);
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  throw new Problem(
    told?.kind ?? "Failed",
    told?.message ?? `The program answered with an error (${response.status}).`,
  );
}

/** Remembers settled answers; one that was cancelled or failed is asked for again. */
function cached<Wanted, Answer>(fetchIt: (wanted: Wanted, signal?: AbortSignal) => Promise<Answer>) {
  const kept = new Map<string, Answer>();
  return async (wanted: Wanted, signal?: AbortSignal): Promise<Answer> => {
    const key = JSON.stringify(wanted);
    const known = kept.get(key);
    if (known !== undefined) return known;
    const answer = await fetchIt(wanted, signal);
    kept.set(key, answer);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value!);
    return answer;
  };
}

/** One of the server's models; its first where none is named. */
export function serverSource(model?: string): Source {
  const texts = new Map<string, string>();
  const ask = (path: string, body: unknown, signal?: AbortSignal) =>
    askServer(model === undefined ? path : `${path}?model=${encodeURIComponent(model)}`, body, signal);

  // A server that was restarted under an open page has forgotten its looks: read the text to it again, once.
  async function about(path: string, wanted: { look: string }, signal?: AbortSignal): Promise<Response> {
    try {
      return await ask(path, wanted, signal);
    } catch (error) {
      const text = texts.get(wanted.look);
      if (!(error instanceof Problem) || error.kind !== "ForgottenLookError" || text === undefined) throw error;
      await ask("look", { text }, signal);
      return ask(path, wanted, signal);
    }
  }

  return {
    live: true,
    models: async () => (await askServer("models", undefined)).json() as Promise<Models>,
    of: (name) => serverSource(name ?? undefined),
    openModel: async (name) => ((await (await askServer("models", { name })).json()) as { name: string }).name,
    model: async (signal) => (await ask("model", undefined, signal)).json() as Promise<ModelCard>,
    look: async (wanted, signal) => {
      const look = lookFrom(await (await ask("look", wanted, signal)).arrayBuffer());
      texts.set(look.look, look.text);
      return look;
    },
    weights: cached(async (wanted, signal) => tileFrom(await (await about("weights", wanted, signal)).arrayBuffer())),
    attribution: cached(async (wanted, signal) =>
      attributionFrom(await (await about("mix", wanted, signal)).arrayBuffer()),
    ),
    token: async (wanted) => (await ask("token", wanted)).json() as Promise<FoundToken>,
    predict: cached(async (wanted, signal) => (await about("predict", wanted, signal)).json() as Promise<Prediction>),
    progress: async () => (await ask("progress", undefined)).json() as Promise<Progress>,
    importance: cached(async (wanted, signal) =>
      importanceFrom(await (await about("importance", wanted, signal)).arrayBuffer()),
    ),
    featured: async () => ((await (await ask("featured", undefined)).json()) as { claims: PaperClaim[] }).claims,
    roles: async () => (await ask("roles", undefined)).json() as Promise<Roles>,
    testHeads: async () => (await ask("roles", {})).json() as Promise<Roles>,
  };
}
