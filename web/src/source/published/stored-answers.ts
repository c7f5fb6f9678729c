// What pages other than the microscope ask, answered from the site's files; what no file answers needs Python.
import { words } from "../../words/words";
import { Problem } from "../source";
import type { PublishedSite } from "./files";
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

type Asked = { question: number; answer: string; attempt: number };

/** Answer requests as the server would, from files. */
export function siteTransport(site: PublishedSite) {
  return async (path: string, body?: unknown, signal?: AbortSignal): Promise<Response> => {
    const lesson = /^lessons\/(\d+)\/answer$/.exec(path);
    if (lesson) {
      const marks: Record<string, StoredQuestion[]> = await (await fetch(site.marks, { signal })).json();
      const asked = body as Asked;
      return Response.json(markOf(marks[lesson[1]][asked.question - 1], asked));
    }
    const file = site.answers[body === undefined ? path : `${path} ${JSON.stringify(body)}`];
    if (file === undefined) throw needsPython(site.command);
    const response = await fetch(file, { signal });
    if (!response.ok) throw new Problem("Missing", words.published.missing(file, response.status));
    return response;
  };
}

export function markOf(question: StoredQuestion, { answer, attempt }: Asked): StoredMark {
  const chosen = question.numeric
    ? question.options.find((option) => sameNumber(answer, option.text))
    : question.options["abcdefgh".indexOf(answer.trim().toLowerCase())];
  if (question.numeric && Number.isNaN(numberOf(answer)))
    throw new Problem(
      "InputError",
      `could not read ${JSON.stringify(answer)} as a number; write it like this: 144, or .3, or 30 %, or 3/10`,
    );
  const replies = chosen ? chosen.replies : question.other;
  return replies[Math.min(attempt, replies.length) - 1];
}

/** A number as people type it: 144, .3, 0,3, 30 %, 3/10. */
export function numberOf(typed: string): number {
  const plain = typed
    .trim()
    .replace(/\s+/g, "")
    .replace(/,(?=\d+%?$)/, ".");
  const share = /^(-?[\d.]+)%$/.exec(plain);
  if (share) return Number(share[1]) / 100;
  const ratio = /^(-?[\d.]+)\/([\d.]+)$/.exec(plain);
  if (ratio) return Number(ratio[1]) / Number(ratio[2]);
  return plain === "" ? NaN : Number(plain);
}

/** Whether a typed number is this one, as exactly as this one is written. */
function sameNumber(typed: string, shown: string): boolean {
  const [given, wanted] = [numberOf(typed), numberOf(shown)];
  const decimals = /\.(\d+)$/.exec(shown.trim())?.[1].length ?? 0;
  return Math.abs(given - wanted) <= 0.5 * 10 ** -decimals * (decimals ? 1 : 1e-6) + 1e-12;
}
