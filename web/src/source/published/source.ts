// Source of a published site: a worker runs the model in the visitor's browser; what needs Python says so.
import { Problem } from "../problem";
import { words } from "../../words/words";
import { unpack } from "../../wire";
import { cached } from "../server";
import { requester } from "../notebook";
import {
  type Attribution,
  type FoundToken,
  type Look,
  type Prediction,
  type Progress,
  type Source,
  type Tile,
  type TraceRequest,
  type Why,
} from "../source";
import { explainedAnswers, fileSource, type Explained } from "../exported-file";
import { addressOf, bytesOf, isOneFile, placeOf } from "../files-of-page";
import {
  keptFiles,
  keptName,
  MODEL_FILES,
  unzipped,
  type ModelEntry,
  type PublishedModel,
  type PublishedSite,
} from "./files";
import type { OpenRequest } from "./worker";

const EMBEDDED_ALONE = "headscope serve"; // the command of a site that names no model
const LONGEST_ARGUMENT = 200; // letters of a text that a command is shown with

/** A text as one argument of a command: plain ones as people write them, others as a shell takes them. */
export function quoted(text: string): string {
  if (!/["\\$`!\n]/.test(text)) return `"${text}"`;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function needsPython(command: string): Problem {
  return new Problem("NeedsPython", words.published.needsPython(command));
}

/** One model of the site, whose files are fetched when the first text is read. */
export function publishedSource(site: PublishedSite, name?: string): Source {
  const entry = site.models.find((model) => model.name === name) ?? site.models[0];
  let progress: Progress = { what: "", done: 0, total: 0, place: 0 };
  let asking: Promise<ReturnType<typeof requester>> | null = null;

  async function begin(): Promise<ReturnType<typeof requester>> {
    const { saveData } = (navigator as { connection?: { saveData?: boolean } }).connection ?? {};
    const opening = await openRequest(site, entry, (await card()).hash);
    if (saveData && !(await isKept(opening)) && !confirm(words.published.fetches(megabytes(entry.bytes))))
      throw new Problem("NotFetched", words.published.notFetched);
    const made = await startWorker(entry.name);
    const port = { postMessage: made.postMessage.bind(made), onmessage: null } as Pick<
      MessagePort,
      "postMessage" | "onmessage"
    >;
    const answers = requester(port);
    const lost = new Promise<never>((_, reject) => {
      made.onerror = () => reject(new Problem("Offline", words.published.offline)); // its script did not come
    });
    const asks: typeof answers = (what, body) => Promise.race([answers(what, body), lost]);
    made.onmessage = (event: MessageEvent) => {
      if (event.data.progress) progress = { ...event.data.progress, ...saidOf(event.data.progress), place: 0 };
      else port.onmessage!.call(port as MessagePort, event);
    };
    const began = performance.now();
    const saidOf = ({ done, total }: Progress) => {
      const gone = (performance.now() - began) / 1000;
      const left = gone < 1 ? null : Math.ceil((gone * (total - done)) / done);
      const fetching = words.published.fetching(megabytes(done), megabytes(total), left);
      return { says: done < total ? fetching : words.published.starting };
    };
    asks("open", opening).then(
      () => (progress = { what: "", done: 0, total: 0, place: 0 }),
      () => (asking = null), // the next question tries again
    );
    return asks;
  }

  const card = cardOf(entry);
  const begun = () => (asking ??= begin().catch((problem) => Promise.reject(((asking = null), problem))));
  const ask = async <Answer>(what: string, body: unknown) =>
    (await (await begun())(what, body).catch(offlineInWords)).value as Answer;
  const texts = new Map<string, string>(); // of each look
  const shown = new Map<string, Source>(); // examples, by look: their answers are stored
  const opened = cached(async (file: string) => fileSource(await unzipped(await bytesOf(`${entry.folder}${file}`))));
  /** What the model says of a look; the text of an example is read first. */
  async function computed<Answer>(what: string, wanted: { look: string }): Promise<Answer> {
    if (!shown.has(wanted.look)) return ask<Answer>(what, wanted);
    const { look } = await ask<Look>("look", { text: texts.get(wanted.look) });
    return { ...(await ask<Answer>(what, { ...wanted, look })), look: wanted.look };
  }
  const stored = cached(async (file: string) => {
    const bytes = await unzipped(await bytesOf(`${entry.folder}${file}`));
    return JSON.parse(new TextDecoder().decode(bytes)) as Explained;
  });
  /** A command about a text that has been read; for a long one, the command that opens the page to paste it into. */
  function about(command: string, look: string, more = ""): string {
    const text = texts.get(look) ?? "";
    const model = site.command === EMBEDDED_ALONE ? "" : ` --model ${quoted(entry.name)}`;
    return text.length > LONGEST_ARGUMENT ? site.command : `headscope ${command} ${quoted(text)}${more}${model}`;
  }
  /** What is stored for a text; for another text, or what is not stored, the command that computes it. */
  async function explanations(look: string, command: string) {
    const file = (await card()).explained[texts.get(look) ?? ""];
    return explainedAnswers(file === undefined ? undefined : await stored(file), () => needsPython(command));
  }
  const trace = async (wanted: TraceRequest) =>
    (await explanations(wanted.look, about("trace", wanted.look))).trace(wanted);
  const absent = (command: string) => async () => {
    throw needsPython(command);
  };
  return {
    live: true,
    published: true,
    docs: site.docs,
    models: async () => ({
      names: site.models.map((model) => model.name),
      titles: site.models.map((model) => model.title),
      opens: false,
    }),
    of: (other) =>
      other === null || other === entry.name ? publishedSource(site, entry.name) : publishedSource(site, other),
    model: async () => (await card()).model,
    look: async (wanted) => {
      const text = "text" in wanted ? wanted.text : "look" in wanted ? texts.get(wanted.look) : undefined;
      const file = (await card()).looks[text ?? ""];
      const stored = file === undefined ? null : await opened(file);
      const look = stored ? { ...(await stored.look(wanted)), text: text! } : await ask<Look>("look", wanted);
      if (stored) shown.set(look.look, stored);
      texts.set(look.look, look.text);
      return look;
    },
    weights: cached((wanted) =>
      shown.has(wanted.look) && wanted.measure === "weight" && wanted.pool === 1
        ? shown.get(wanted.look)!.weights(wanted)
        : computed<Tile>("weights", wanted),
    ),
    attribution: cached((wanted) => {
      const model = () => computed<Attribution>("attribution", wanted);
      const stored = wanted.toward === null && wanted.minus === null && shown.get(wanted.look);
      return stored ? stored.attribution(wanted).catch(model) : model(); // of the last position alone
    }),
    token: (wanted) => ask<FoundToken>("token", wanted),
    predict: cached(async (wanted) => {
      const stored = await shown
        .get(wanted.look)
        ?.predict(wanted)
        .catch(() => null);
      return stored ?? computed<Prediction>("predict", wanted);
    }),
    why: async (wanted) =>
      (await card()).split.why_not
        ? {
            ...(await explanations(wanted.look, about("why", wanted.look, ` --head ${wanted.head}`))).why(wanted),
            stored: true,
          }
        : computed<Why>("why", wanted),
    cutPath: async (wanted) => (await explanations(wanted.look, site.command)).cutPath(wanted),
    trace,
    traceCommand: (wanted) =>
      trace(wanted).then(
        () => null,
        () => about("trace", wanted.look),
      ),
    progress: async () => progress,
    importance: absent(`headscope serve`),
    featured: async () => (await card()).featured,
    roles: async () => (await card()).roles,
    testHeads: absent("headscope heads"),
  };
}

const megabytes = (bytes: number) => Math.round(bytes / 1e6);

/** A worker has no catalogue of sentences. */
function offlineInWords(problem: unknown): never {
  const offline = problem instanceof Problem && problem.kind === "Offline";
  throw offline ? new Problem("Offline", words.published.offline) : problem;
}

/** Whether an earlier visit has fetched this model. */
async function isKept({ model, version, files }: OpenRequest): Promise<boolean> {
  const place = files["weights.bin"];
  return typeof place !== "string" || !!(await (await keptFiles(model))?.match(keptName(place, version)));
}

async function startWorker(name: string): Promise<Worker> {
  if (isOneFile()) return new Worker(await addressOf("assets/one-file-worker.js"), { name });
  return new Worker(new URL("./worker.ts", import.meta.url), { type: "module", name });
}

async function openRequest(site: PublishedSite, entry: ModelEntry, hash: string): Promise<OpenRequest> {
  const places = await Promise.all(MODEL_FILES.map((file) => placeOf(`${entry.folder}${file}`)));
  const files = Object.fromEntries(MODEL_FILES.map((file, at) => [file, places[at]])) as OpenRequest["files"];
  const [model, version] = [new URL(entry.folder, document.baseURI).href, `${site.version}-${hash}`];
  return { runtime: await placeOf(site.runtime), files, bytes: entry.bytes, model, version };
}

/** The model's description, fetched once; refused with the reason where the site holds no model. */
function cardOf(entry: ModelEntry): () => Promise<PublishedModel> {
  let found: Promise<PublishedModel> | null = null;
  return async () => {
    if (!entry.folder) throw new Problem("NotPublished", entry.why_not);
    found ??= bytesOf(`${entry.folder}model.bin`).then((bytes) => unpack(bytes).values as PublishedModel);
    return found;
  };
}
