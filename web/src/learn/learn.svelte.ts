// The state of the lessons: which one is open, and the answers, which stay in this browser.
import type { components } from "../api";
import { PageState } from "../source/page-state.svelte";
import { askJson, cached } from "../source/server";
import { messageOf } from "../source/source";
import { addressOf, fieldsAt, whole } from "../address-fields";

type Schemas = components["schemas"];
export type LessonLine = Schemas["LessonSummary"];
export type Lesson = Schemas["LessonResponse"];
export type Marked = Schemas["Marked"] & { answer: string };

const KEY = "headscope.lessons";

/** Lesson and question, as in "3.1", to the last answer given. */
type Answers = Record<string, Marked>;

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
  lesson = $state.raw<Lesson | null>(null);
  number = $state(1);
  answers = $state<Answers>(recalled());
  unread = $state<Record<string, string>>({}); // why an answer could not be read
  private fetchLesson = cached((number: number) => askJson<Lesson>(`lessons/${number}`));

  readonly waiting = $derived(this.lesson?.number !== this.number && !this.problem);

  async load(): Promise<void> {
    this.restore(location.hash);
    const listed = await this.guarded(async () => {
      this.lines = (await askJson<Schemas["LessonList"]>("lessons")).lessons;
    });
    if (listed) await this.open(this.number);
  }

  restore(hash: string): void {
    this.number = whole(fieldsAt(hash).get("lesson"), 1, 1000) ?? 1;
  }

  address(): string {
    return addressOf("learn", { lesson: this.number });
  }

  /** The last lesson stays until the next one is computed. */
  async open(number: number): Promise<void> {
    this.number = number;
    const current = () => this.number === number;
    await this.guarded(async () => {
      const lesson = await this.fetchLesson(number);
      if (current()) this.lesson = lesson;
    }, current);
  }

  async answer(question: number, answer: string): Promise<void> {
    const key = `${this.lesson!.number}.${question}`;
    try {
      const marked = await askJson<Schemas["Marked"]>(`lessons/${this.lesson!.number}/answer`, { question, answer });
      this.answers[key] = { ...marked, answer };
      this.unread = { ...this.unread, [key]: "" };
      this.keep();
    } catch (error) {
      this.unread = { ...this.unread, [key]: messageOf(error) };
    }
  }

  right(number: number): number {
    return Object.entries(this.answers).filter(([key, marked]) => key.startsWith(`${number}.`) && marked?.right).length;
  }

  forget(): void {
    this.answers = {};
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
