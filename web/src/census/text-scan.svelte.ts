// A pasted text's scan: its progress while it runs, and a way to stop it.
import type { components } from "../api";
import { queryOf } from "../address-fields";
import { count } from "../format";
import { askJson } from "../source/server";
import { messageOf, type Models, type Progress } from "../source/source";
import { words } from "../words/words";

type Summary = components["schemas"]["CensusSummary"];

export const LONGEST = 100_000; // characters; the server's own limit
const POLL = 300; // milliseconds

export class TextScan {
  text = $state("");
  model = $state("");
  models = $state.raw<Models | null>(null);
  progress = $state.raw<Progress | null>(null);
  running = $state(false);
  problem = $state("");
  note = $state("");

  private abort: AbortController | null = null;

  readonly over = $derived(this.text.length - LONGEST);
  readonly ready = $derived(!this.running && this.text.trim() !== "" && this.over <= 0);
  readonly far = $derived(this.progress && this.progress.total > 0 ? this.progress.done / this.progress.total : 0);

  async loadModels(): Promise<void> {
    this.models = await askJson<Models>("models").catch(() => null);
    this.model = this.models?.names[0] ?? "";
  }

  /** Scan the text; the census's summary, or null where it was stopped or refused. */
  async run(): Promise<Summary | null> {
    if (!this.ready) return null;
    const request = `scan${Math.random().toString(36).slice(2)}`;
    const query = queryOf({ request, model: this.model || null });
    const abort = (this.abort = new AbortController());
    this.running = true;
    this.problem = this.note = "";
    this.progress = null;
    const asking = setInterval(async () => {
      const told = await askJson<Progress>(`progress?${queryOf({ request })}`).catch(() => null);
      if (this.abort === abort) this.progress = told;
    }, POLL);
    try {
      const made = await askJson<Summary>(`censuses?${query}`, { text: this.text }, abort.signal);
      this.note = words.censusScan.done(count(made.tokens));
      return made;
    } catch (error) {
      if (abort.signal.aborted) this.note = words.censusScan.stopped;
      else this.problem = messageOf(error);
      return null;
    } finally {
      clearInterval(asking);
      this.abort = null;
      this.running = false;
    }
  }

  stop(): void {
    this.abort?.abort();
  }

  /** Where the scan is, in words. */
  status(): string {
    const said = words.censusScan;
    if (!this.running) return this.note;
    if (this.progress?.place) return said.waiting;
    if (!this.progress?.total) return said.reading;
    return said.far(count(this.progress.done), count(this.progress.total));
  }
}
