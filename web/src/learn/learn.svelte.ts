// The state of the lessons: which one is open, and the answers, which stay in this browser.
import type { components } from "../api";
import { PageState } from "../source/page-state.svelte";
import { askJson, cached } from "../source/server";
import { messageOf } from "../source/source";
import { addressOf, fieldsAt, whole } from "../address-fields";
import { numbers } from "./lesson-numbers.svelte";

type Schemas = components["schemas"];
export type LessonLine = Schemas["LessonSummary"];
export type Lesson = Schemas["LessonResponse"];
export type LessonFigure = Schemas["LessonFigure"];
export type LessonBlock = Schemas["CodeBlock"];
/** The last answer to a question; `tried` are all answers so far, in order; `solved` where one of them was right. */
export type Marked = Schemas["Marked"] & { answer: string; tried?: string[]; solved?: boolean };

const KEY = "headscope.lessons";

/** Under which an answer is kept. */
export const answerKey = (lesson: { name: string }, question: number): string => `${lesson.name}.${question}`;

/** The lesson's name and the question, as in "what-w-o-does.1", to the last answer given: names outlive a new order. */
type Answers = Record<string, Marked>;

/** Once answered rightly, it stays so: a look at what the other options say takes nothing away. */
const isSolved = (marked: Marked | undefined) => !!marked && (marked.right || !!marked.solved);

function recalled(): Answers {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof kept === "object" && kept !== null && !Array.isArray(kept) ? kept : {};
  } catch {
    return {};
  }
}

export class Learner extends PageState {
  lines = $state.raw<LessonLine[]>([]);
  last = $state(0); // of the whole course; in a class only the open lessons are listed
  lesson = $state.raw<Lesson | null>(null);
  number = $state(0);
  answers = $state<Answers>(recalled());
  forgotten = $state.raw<Answers | null>(null);
  unread = $state<Record<string, string>>({}); // why an answer could not be read
  private fetchLesson = cached((number: number) => askJson<Lesson>(`lessons/${number}`));

  readonly waiting = $derived(this.lesson?.number !== this.number && !this.problem);

  async load(): Promise<void> {
    this.restore(location.hash);
    if (await this.guarded(() => this.list())) await this.open(this.number);
  }

  private async list(): Promise<void> {
    const told = await askJson<Schemas["LessonList"]>("lessons");
    this.lines = told.lessons;
    this.last = told.last;
  }

  restore(hash: string): void {
    this.number = whole(fieldsAt(hash).get("lesson"), 0, 1000) ?? 0;
  }

  address(): string {
    return addressOf("learn", { lesson: this.number });
  }

  /** The last lesson stays until the next one is computed. */
  async open(number: number): Promise<void> {
    this.number = number;
    const current = () => this.number === number;
    const listed = this.lines.some((line) => line.number === number);
    const opened = await this.guarded(async () => {
      const lesson = await this.fetchLesson(number);
      if (!current()) return;
      numbers.reset();
      this.lesson = lesson;
    }, current);
    if (opened !== listed) await this.list().catch(() => undefined); // the teacher has opened or closed a lesson
  }

  async answer(question: number, answer: string): Promise<void> {
    const key = answerKey(this.lesson!, question);
    const before = this.answers[key];
    const tried = before && !before.right ? (before.tried ?? [before.answer]) : [];
    const asked: Schemas["AnswerRequest"] = { question, answer, attempt: tried.length + 1 };
    try {
      const marked = await askJson<Schemas["Marked"]>(`lessons/${this.lesson!.number}/answer`, asked);
      this.answers[key] = { ...marked, answer, tried: [...tried, answer], solved: marked.right || isSolved(before) };
      this.unread = { ...this.unread, [key]: "" };
      this.keep();
    } catch (error) {
      this.unread = { ...this.unread, [key]: messageOf(error) };
    }
  }

  right(line: LessonLine): number {
    const keys = Array.from({ length: line.questions }, (_, k) => answerKey(line, k + 1));
    return keys.filter((key) => isSolved(this.answers[key])).length;
  }

  /** Forget every answer; until the page is left, they can be brought back. */
  forget(): void {
    [this.forgotten, this.answers] = [this.answers, {}];
    this.keep();
  }

  undo(): void {
    [this.answers, this.forgotten] = [{ ...this.forgotten, ...this.answers }, null];
    this.keep();
  }

  private keep(): void {
    try {
      localStorage.setItem(KEY, JSON.stringify(this.answers));
    } catch {
      // nothing to keep it in: progress then lasts as long as the page
    }
  }
}
