// Requests under way: how many, their progress, and the last error.
import { untrack } from "svelte";
import { Problem } from "../../source/problem";
import { messageOf, type Progress } from "../../source/source";

export class PendingRequests {
  working = $state(0);
  progress = $state.raw<Progress | null>(null); // of work that takes a while
  problem = $state<string | null>(null);
  private failed = "";

  /** An effect's question: its answer is put where it belongs, unless the effect was run again meanwhile. */
  fetch<Answer>(
    what: string,
    ask: (signal: AbortSignal) => Promise<Answer>,
    put: (answer: Answer) => void,
  ): () => void {
    const asking = new AbortController();
    const answer = ask(asking.signal);
    untrack(() => this.track(what, answer, asking.signal)).then((found) => found && put(found));
    return () => asking.abort();
  }

  /** Waits, shows that it waits, and turns a failure into a sentence above the last good picture. */
  protected async track<Answer>(
    what: string,
    answer: Promise<Answer>,
    signal: AbortSignal,
  ): Promise<Answer | undefined> {
    this.working++;
    try {
      const found = await answer;
      if (signal.aborted) return undefined;
      if (what === "look" || what === this.failed) this.problem = null;
      return found;
    } catch (error) {
      const absent = error instanceof Problem && error.kind === "NotInFile"; // said where it is missing
      if (!signal.aborted && !absent) [this.failed, this.problem] = [what, messageOf(error)];
      return undefined;
    } finally {
      this.working--;
    }
  }
}
