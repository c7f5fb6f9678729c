// The rules of one model's heads: fetched when the model is opened, fitted when somebody asks, stopped when they say so.
import { messageOf, type HeadWords, type Progress, type RulesCard, type Source } from "../../source/source";

const ASK_AGAIN = 3000; // while another page has them fitted
const PROGRESS = 800;

export class HeadsInWords {
  card = $state.raw<RulesCard | null>(null);
  fitting = $state.raw<AbortController | null>(null);
  progress = $state.raw<Progress | null>(null);
  problem = $state("");
  private source: Source | null = null;
  private byHead = $derived(Object.fromEntries(this.card?.heads.map((head) => [head.head, head]) ?? []));

  of(head: string): HeadWords | undefined {
    return this.byHead[head];
  }

  get fitted(): boolean {
    return this.card?.state === "fitted";
  }

  /** Another model: its rules, if they are there. */
  open(source: Source): void {
    this.stop();
    [this.source, this.card, this.problem] = [source, null, ""];
    this.fetch(source);
  }

  private async fetch(source: Source): Promise<void> {
    const card = (await source.rules?.().catch(() => null)) ?? null;
    if (source !== this.source || this.fitting) return;
    this.card = card;
    if (card?.state === "fitting") setTimeout(() => source === this.source && this.fetch(source), ASK_AGAIN);
  }

  async fit(): Promise<void> {
    const { source } = this;
    if (!source?.fitRules || this.fitting || this.fitted) return;
    const asking = (this.fitting = new AbortController());
    this.problem = "";
    const following = setInterval(async () => {
      const progress = (await source.progress?.().catch(() => null)) ?? null;
      if (this.fitting === asking) this.progress = progress;
    }, PROGRESS);
    try {
      const card = await source.fitRules(asking.signal);
      if (!asking.signal.aborted && source === this.source) this.card = card;
    } catch (error) {
      if (!asking.signal.aborted) this.problem = messageOf(error);
    } finally {
      clearInterval(following);
      if (this.fitting === asking) [this.fitting, this.progress] = [null, null];
    }
  }

  stop(): void {
    this.fitting?.abort();
    [this.fitting, this.progress] = [null, null];
  }
}
