// The state of Start: the shares that the student has set, kept in this browser.
import { Fork } from "../figures/fork/fork.svelte";
import { recall, remember } from "../storage";
import { words } from "../words/words";
import { BEGINNING, moved, TWO, type Progress } from "./shares";

const KEY = "headscope.start";

export function recalled(): Progress {
  try {
    const kept = JSON.parse(recall(KEY) ?? "null") as Progress | null;
    const whole = (shares: unknown) =>
      Array.isArray(shares) && shares.length === 4 && Math.abs(shares.reduce((sum, each) => sum + each, 0) - 1) < 0.01;
    return kept && kept.heads.length >= 1 && kept.heads.length <= 2 && kept.heads.every(whole) ? kept : BEGINNING;
  } catch {
    return BEGINNING;
  }
}

export class StartState {
  progress = $state.raw<Progress>(recalled());
  readonly fork = new Fork();

  constructor() {
    this.show(this.progress);
  }

  /** A share was moved. */
  follow(): void {
    if (this.fork.drawn.shares !== this.progress.heads) this.keep(moved(this.progress, this.fork.drawn.shares));
  }

  addHead(): void {
    this.show({ ...this.progress, heads: TWO });
  }

  reset(): void {
    this.show(BEGINNING);
  }

  private show(progress: Progress): void {
    const { sentence, reader, asked } = words.start;
    this.fork.begin(sentence.split(" "), reader, asked, progress.heads);
    this.keep(progress);
  }

  private keep(progress: Progress): void {
    this.progress = progress;
    remember(KEY, JSON.stringify(progress));
  }
}
