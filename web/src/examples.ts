// Example texts, each chosen for one phenomenon, and whether the loaded model shows it.
import found from "./examples.json";
import { scoresIn, weightsBetween } from "./microscope/state/look-statistics";
import type { Look, ModelCard, Prediction, Source } from "./source/source";
import type { words } from "./words/words";

export interface Example {
  key: keyof (typeof words)["examples"]["all"];
  text: string;
  by: string; // the question whose best head is selected first
  at?: string; // the token that is selected
  reads?: string; // the head that attends most from there to this token is selected instead
  expects?: string[]; // the phenomenon: one of these words is the likeliest to come next
}

export const EXAMPLES = found as Example[];

/** Without a word to expect: how much some head has to read what the example is about. */
const READS = 0.25;

const begins = (word: string, token: string) => token !== "" && (word.startsWith(token) || token.startsWith(word));

/** Whether this look shows what the example is about; null while that cannot be told. */
export function shows(example: Example, look: Look, model: ModelCard, prediction: Prediction | null): boolean | null {
  if (example.expects) {
    if (!prediction?.guesses.length || prediction.position !== look.tokens.length - 1) return null;
    const token = prediction.guesses[0].text.trim();
    return example.expects.some((word) => begins(word, token));
  }
  if (example.reads) {
    const find = (word: string) => look.tokens.findLastIndex((token) => token.text.trim() === word);
    const query = example.at ? find(example.at) : look.tokens.length - 1;
    const read = query < 0 ? null : weightsBetween(look, query, find(example.reads)); // 255·√weight
    return read && Math.max(...read) / 255 >= Math.sqrt(READS);
  }
  const scores = scoresIn(look, model, example.by);
  return scores && Math.max(...Array.from(scores).filter(Number.isFinite), 0) >= READS;
}

/** The first other example that this model shows, asked one after the other; null if there is none. */
export async function shownBy(source: Source, model: ModelCard, not: Example): Promise<Example | null> {
  for (const example of EXAMPLES.filter((each) => each !== not)) {
    const look = await source.look({ text: example.text });
    const position = look.tokens.length - 1;
    const asked = { look: look.look, position, off: [], how: "zero" as const, cuts: [], count: 6 };
    const prediction = example.expects ? await source.predict(asked) : null;
    if (shows(example, look, model, prediction)) return example;
  }
  return null;
}
