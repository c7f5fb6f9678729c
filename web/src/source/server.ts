// Source of the server's page: HTTP requests, the last few hundred answers cached.
import { Problem } from "./problem";
import { unpack, type Container } from "../wire";
import { words } from "../words/words";
import { attributionFrom, importanceFrom, lookFrom, receivedFrom, tileFrom } from "./decode";
import {
  type CutPath,
  type FoundToken,
  type Lens,
  type MediaFile,
  type ModelCard,
  type Models,
  type PaperClaim,
  type Patching,
  type Prediction,
  type Progress,
  type Carriers,
  type Roles,
  type Sources,
  type Source,
  type Trace,
  type Why,
  type Wanted,
} from "./source";

const KEPT = 200;
const TAB = Math.random().toString(36).slice(2); // names this tab's requests, whose progress it asks for

type Transport = (path: string, body?: unknown, signal?: AbortSignal) => Promise<Response>;
let transport: Transport | null = null;

/** Have another answer what the pages ask: a published site has files in place of a server. */
export function answerWith(other: Transport): void {
  transport = other;
}

export async function askServer(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  if (transport) return transport(path, body, signal);
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
    throw new Problem("Stopped", words.frame.lastPicture);
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  throw new Problem(told?.kind ?? "Failed", told?.message ?? words.frame.answered(response.status), response.status);
}

export async function askJson<Answer>(path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> {
  return (await askServer(path, body, signal)).json();
}

export async function askContainer(path: string): Promise<Container> {
  return unpack(await (await askServer(path)).arrayBuffer());
}

/** Remembers settled answers; one that was cancelled or failed is asked for again. */
export function cached<Wanted, Answer>(fetchIt: (wanted: Wanted, signal?: AbortSignal) => Promise<Answer>) {
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
  const read = new Map<string, { text: string } | { media: MediaFile }>(); // what each look was of
  const asked = new URLSearchParams({ request: TAB, ...(model === undefined ? {} : { model }) });
  const ask = (path: string, body?: unknown, signal?: AbortSignal) => askServer(`${path}?${asked}`, body, signal);

  const askLook = (wanted: Wanted, signal?: AbortSignal) =>
    "media" in wanted
      ? ask("media", { data: wanted.media.data, text: wanted.media.text }, signal)
      : ask("look", wanted, signal);

  // A server that was restarted under an open page has forgotten its looks: send what they were of again, once.
  async function about(path: string, wanted: { look: string }, signal?: AbortSignal): Promise<Response> {
    try {
      return await ask(path, wanted, signal);
    } catch (error) {
      const again = read.get(wanted.look);
      if (!(error instanceof Problem) || error.kind !== "ForgottenLookError" || again === undefined) throw error;
      await askLook(again, signal);
      return ask(path, wanted, signal);
    }
  }

  const json = async <Answer>(path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> =>
    (await ask(path, body, signal)).json();
  const bytes = async (path: string, wanted: { look: string }, signal?: AbortSignal) =>
    (await about(path, wanted, signal)).arrayBuffer();

  return {
    live: true,
    models: () => askJson<Models>("models"),
    of: (name) => serverSource(name ?? undefined),
    openModel: async (name) => (await askJson<{ name: string }>("models", { name })).name,
    model: (signal) => json<ModelCard>("model", undefined, signal),
    look: async (wanted, signal) => {
      const look = lookFrom(await (await askLook(wanted, signal)).arrayBuffer());
      if ("media" in wanted) read.set(look.look, { media: wanted.media });
      else if (!look.media) read.set(look.look, { text: look.text });
      if (read.size > KEPT) read.delete(read.keys().next().value!);
      return look;
    },
    weights: cached(async (wanted, signal) => tileFrom(await bytes("weights", wanted, signal))),
    attribution: cached(async (wanted, signal) => attributionFrom(await bytes("attribution", wanted, signal))),
    token: (wanted) => json<FoundToken>("token", wanted),
    predict: cached(async (wanted, signal) => (await about("predict", wanted, signal)).json() as Promise<Prediction>),
    why: cached(async (wanted, signal) => (await about("why", wanted, signal)).json() as Promise<Why>),
    cutPath: cached(async (wanted, signal) => (await about("cut-path", wanted, signal)).json() as Promise<CutPath>),
    trace: cached(async (wanted, signal) => (await about("trace", wanted, signal)).json() as Promise<Trace>),
    lens: cached(async (wanted, signal) => (await about("lens", wanted, signal)).json() as Promise<Lens>),
    patching: cached(async (wanted, signal) => (await about("patching", wanted, signal)).json() as Promise<Patching>),
    sources: (wanted) => json<Sources>("sources", wanted),
    carriers: (wanted) => json<Carriers>("carriers", wanted),
    progress: () => json<Progress>("progress"),
    received: cached(async (wanted, signal) => receivedFrom(await bytes("received", wanted, signal))),
    importance: cached(async (wanted, signal) => importanceFrom(await bytes("importance", wanted, signal))),
    featured: () => json<PaperClaim[]>("featured"),
    roles: () => json<Roles>("roles"),
    testHeads: () => json<Roles>("roles", {}),
  };
}
