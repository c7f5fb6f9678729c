// The state of a class in this browser: what the teacher sees, or the news for a student, asked for every few seconds.
import type { components } from "../api";
import { fieldsAt, isAt, whole } from "../address-fields";
import { askJson } from "../source/server";
import { Problem } from "../source/problem";
import { messageOf } from "../source/source";

type Schemas = components["schemas"];
export type TeacherView = Schemas["TeacherView"];
export type ClassNews = Schemas["ClassNews"];
export type Worksheet = Schemas["ShownWorksheet"];

const EVERY = 3000;

/** Calls `ask` now and every few seconds while the page is in sight, until it says false; returns how to stop. */
export function repeated(ask: () => Promise<boolean>): () => void {
  let stopped = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  async function again() {
    if (document.visibilityState === "visible") stopped ||= !(await ask());
    if (!stopped) timer = setTimeout(again, EVERY);
  }
  void again();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

export class Teacher {
  view = $state.raw<TeacherView | null>(null);
  lesson = $state<number | null>(null);
  question = $state(0);
  few = $state(false); // show which options were chosen, however few have answered
  refused = $state<number | null>(null); // 403 to who is no teacher, 401 after the server was started again
  problem = $state("");

  async refresh(): Promise<boolean> {
    try {
      this.view = await askJson<TeacherView>(`class/teacher?lesson=${this.shownLesson}&few=${this.few}`);
      this.problem = "";
    } catch (error) {
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) this.refused = error.status;
      else this.problem = messageOf(error);
    }
    return this.refused === null;
  }

  /** The lesson whose answers are shown: the chosen one, else the one opened last. */
  get shownLesson(): number {
    return this.lesson ?? this.view?.newest ?? 0;
  }

  async send(what: string, body: unknown = {}): Promise<void> {
    await askJson(`class/${what}`, body);
    await this.refresh();
  }

  async choose(lesson: number): Promise<void> {
    [this.lesson, this.question, this.few] = [lesson, 0, false];
    await this.refresh();
  }

  async showFew(): Promise<void> {
    this.few = !this.few;
    await this.refresh();
  }

  /** The next question, or the one before; after the last comes the first. */
  step(by: number): void {
    const count = this.view?.questions.length ?? 0;
    if (count) this.question = (this.question + by + count) % count;
  }
}

class Student {
  news = $state.raw<ClassNews | null>(null);
  seen = $state(-1); // the newest lesson whose opening was read
  declined = $state(false);
  left = $state(false);
  lost = $state(false); // the server was started again: it does not know this browser

  /** Asks for news; false where no class is held. */
  async refresh(): Promise<boolean> {
    try {
      const lesson = isAt("learn", location.hash) ? (whole(fieldsAt(location.hash).get("lesson"), 0, 999) ?? 0) : -1;
      const news = await askJson<ClassNews | null>(`class?lesson=${lesson}`);
      if (news === null) return false;
      if (this.news === null) this.seen = news.newest;
      if (!news.asked_to_show) this.declined = false;
      this.news = news;
    } catch (error) {
      this.lost = this.news !== null && error instanceof Problem && error.status === 401;
      // else the server is busy or has stopped; the page itself says so
    }
    return !this.lost;
  }

  /** Leave the class, after which no answer counts, or come back. */
  async leave(left: boolean): Promise<void> {
    await askJson("class/leave", { left }).catch(() => undefined); // no class is held any more
    this.left = left;
    if (!left) await this.refresh();
  }

  async show(): Promise<void> {
    await askJson("class/show", { address: location.hash || "#microscope" });
    await this.refresh();
  }
}

export const student = new Student();
