// What By hand and Four heads ask, computed in the visitor's browser.
import type { components } from "../../../api";
import { words } from "../../../words/words";
import { Problem } from "../../problem";
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

/** A request in the words of its stored answer: a rule may be named by how it is said. */
export async function meant(stored: Stored, path: string, body: unknown): Promise<unknown> {
  if (path !== "rules/compile") return body;
  const { rule, hidden = false } = body as Schemas["CompileRequest"];
  const { rules } = await stored<Schemas["CompilableRules"]>("rules/compile");
  const typed = plain(rule);
  const found = rules.find(({ name, phrase }) => plain(name) === typed || plain(phrase) === typed);
  if (!found)
    throw new Problem("InputError", words.published.noSuchRule(rule, rules.map(({ name }) => name).join(", ")));
  return { rule: found.name, hidden };
}

const plain = (typed: string) => typed.toLowerCase().split(/\s+/).join(" ").trim();
