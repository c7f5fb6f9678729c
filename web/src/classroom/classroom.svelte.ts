// The state of a class in this browser: what the teacher sees, or the news for a student, asked for every few seconds.
import type { components } from "../api";
import { askJson } from "../source/server";
import { Problem } from "../source/problem";
import { messageOf } from "../source/source";

type Schemas = components["schemas"];
export type TeacherView = Schemas["TeacherView"];
export type ClassNews = Schemas["ClassNews"];
export type Worksheet = Schemas["WorksheetResponse"];

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
  refused = $state(false);
  problem = $state("");

  async refresh(): Promise<boolean> {
    try {
      this.view = await askJson<TeacherView>(`class/teacher?lesson=${this.shownLesson}`);
      this.problem = "";
    } catch (error) {
      if (error instanceof Problem && error.kind === "Refused") this.refused = true;
      else this.problem = messageOf(error);
    }
    return !this.refused;
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
    this.lesson = lesson;
    await this.refresh();
  }
}

export class Student {
  news = $state.raw<ClassNews | null>(null);
  seen = $state(-1); // the newest lesson whose opening was read
  declined = $state(false);

  /** Asks for news; false where no class is held. */
  async refresh(): Promise<boolean> {
    try {
      const news = await askJson<ClassNews | null>("class");
      if (news === null) return false;
      if (this.news === null) this.seen = news.newest;
      if (!news.asked_to_show) this.declined = false;
      this.news = news;
    } catch {
      // the server is busy or has stopped; the page itself says so
    }
    return true;
  }

  async show(): Promise<void> {
    await askJson("class/show", { address: location.hash || "#microscope" });
    await this.refresh();
  }
}
