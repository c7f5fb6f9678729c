// What pages other than the microscope ask, answered from the site's files; what no file answers needs Python.
import { cached } from "../server";
import { Problem } from "../problem";
import type { components } from "../../api";
import { ownSentence } from "../../four-heads/written-arrows";
import { bytesOf } from "../files-of-page";
import { unzipped, type PublishedSite } from "./files";
import { means, readings } from "../../learn/typed-numbers";
import { needsPython } from "./source";

interface StoredMark {
  right: boolean;
  says: string;
  kind: string;
}

/** A question's replies: by option, and to anything else, each for the first, second and third attempt. */
export interface StoredQuestion {
  numeric: boolean;
  options: { text: string; replies: StoredMark[] }[];
  other: StoredMark[];
}

type Schemas = components["schemas"];
type Asked = { question: number; answer: string; attempt: number };

type Answers = Record<string, unknown>;

/** Answer requests as the server would, from files and from what is computed here. */
export function siteTransport(site: PublishedSite) {
  const stored = cached(async (file: string) => unzipped(await bytesOf(file)));
  const json = async <Answer>(file: string) => JSON.parse(new TextDecoder().decode(await stored(file))) as Answer;
  const answered = <Answer>(request: string) => json<Answer>(site.answers[request]);
  return async (path: string, body?: unknown): Promise<Response> => {
    const lesson = /^lessons\/(\d+)\/answer$/.exec(path);
    if (lesson) {
      const asked = body as Asked;
      const marks = await json<Record<string, StoredQuestion[]>>(site.marks);
      return Response.json(markOf(marks[lesson[1]][asked.question - 1], asked));
    }
    const request = body === undefined ? path : `${path} ${JSON.stringify(body)}`;
    if (request in site.answers) return new Response(await stored(site.answers[request]));
    const group = Object.keys(site.groups).find((begins) => request.startsWith(begins));
    const answers = group === undefined ? {} : await json<Answers>(site.groups[group]);
    if (request in answers) return Response.json(answers[request]);
    const { sentence } = (path === "lab/sentence" && (body as Schemas["SentenceRequest"] | undefined)) || {};
    if (!sentence) throw needsPython(site.command);
    const first = await answered<Schemas["SentenceResponse"]>("lab/sentence {}");
    return Response.json(ownSentence(sentence, first.targets)); // split into words here
  };
}

export function markOf(question: StoredQuestion, { answer, attempt }: Asked): StoredMark {
  const chosen = question.numeric
    ? question.options.find((option) => means(answer, option.text))
    : question.options["abcdefgh".indexOf(answer.trim().toLowerCase())];
  if (question.numeric && !readings(answer).length)
    throw new Problem(
      "InputError",
      `could not read ${JSON.stringify(answer)} as a number; write it like this: 144, or .3, or 30 %, or 3/10`,
    );
  const replies = chosen ? chosen.replies : question.other;
  return replies[Math.min(attempt, replies.length) - 1];
}
