// A sentence of the visitor's own on Four heads, split into words in the browser.
import type { components } from "../../../api";
import { ownSentence } from "../../../four-heads/written-arrows";

type Schemas = components["schemas"];
/** The answer that is stored under a request. */
type Stored = <Answer>(request: string) => Promise<Answer>;

/** The answer to a request, computed; undefined where nothing here computes it. */
export async function computed(stored: Stored, path: string, body: unknown): Promise<unknown> {
  const sentence = path === "lab/sentence" ? (body as Schemas["SentenceRequest"] | undefined)?.sentence : null;
  if (!sentence) return undefined;
  return ownSentence(sentence, (await stored<Schemas["SentenceResponse"]>("lab/sentence {}")).targets);
}
