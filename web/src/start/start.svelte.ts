// The state of Start: the shares that the student has set, kept in this browser.
import { recall, remember } from "../storage";
import { BEGINNING, moved, TWO, withShare, type Progress } from "./shares";

const KEY = "headscope.start";

function recalled(): Progress {
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

  set(head: number, word: number, share: number): void {
    const { heads } = this.progress;
    const to = Math.round(share * 100) / 100;
    this.keep(
      moved(
        this.progress,
        heads.map((shares, at) => (at === head ? withShare(shares, word, to) : shares)),
      ),
    );
  }

  addHead(): void {
    this.keep({ ...this.progress, heads: TWO });
  }

  reset(): void {
    this.keep(BEGINNING);
  }

  private keep(progress: Progress): void {
    this.progress = progress;
    remember(KEY, JSON.stringify(progress));
  }
}
