// What By hand and Four heads ask, computed in the visitor's browser.
import type { components } from "../../../api";
import { checkFork, checkInvented, type Exercise, type ForkRemarks } from "./exercises";
import { workedExample, type Worked } from "./worked-example";
import { ownSentence, parseArrows, splitWords } from "./written-arrows";

type Schemas = components["schemas"];
/** The answer that is stored under a request. */
type Stored = <Answer>(request: string) => Promise<Answer>;
type Compute = (stored: Stored, body: never) => Promise<unknown>;

const COMPUTED: Record<string, Compute> = {
  "lab/worked": async (stored, body: Schemas["WorkedRequest"]) =>
    workedExample(await stored<Worked>("lab/worked {}"), body),
  "lab/exercise": async (stored, body: Schemas["InventedRequest"]) =>
    checkInvented(await stored<Exercise>("lab/exercise/answers"), body),
  "lab/fork": async (stored, body: { arrows: [string, string][] }) =>
    checkFork(await stored<ForkRemarks>("lab/fork/remarks"), body.arrows),
  "lab/arrows": async (_, body: Schemas["ArrowsRequest"]) => parseArrows(body.text, splitWords(body.sentence)),
  "lab/sentence": async (stored, body: { sentence: string }) =>
    ownSentence(body.sentence, (await stored<Schemas["SentenceResponse"]>("lab/sentence {}")).targets),
};

/** The answer to a request, computed; undefined where nothing here computes it. */
export async function computed(stored: Stored, path: string, body: unknown): Promise<unknown> {
  if (body === undefined || (path === "lab/sentence" && !(body as { sentence?: string }).sentence)) return undefined;
  return COMPUTED[path]?.(stored, body as never);
}
