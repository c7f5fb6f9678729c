// Base of a page's state: runs requests and keeps the last error as a sentence.
import { messageOf } from "./source";

export class PageState {
  problem = $state("");

  /** Runs requests. A failure is told and true is not returned; a cancelled or outdated request tells nothing. */
  protected async guarded(work: () => Promise<void>, current = () => true): Promise<boolean> {
    try {
      await work();
      if (current()) this.problem = "";
      return true;
    } catch (error) {
      const cancelled = error instanceof DOMException && error.name === "AbortError";
      if (!cancelled && current()) this.problem = messageOf(error);
      return false;
    }
  }
}
