// What is being explained: one arrow and one of its writers, or a prediction traced back; and the answers.
import { Problem } from "../../source/problem";
import { messageOf, type CutPath, type Trace, type Why } from "../../source/source";
import { EXPLAIN, type Explain, type Pin, type TracePath } from "./explain-address";

/** An answer that is on its way, there, or not to be had. */
export class Asked<Answer> {
  found = $state.raw<Answer | null>(null);
  refused = $state("");
  waiting = $state(false);

  /** Ask; the last answer stays until the new one is there. A cancelled question changes nothing. */
  ask(question: (signal: AbortSignal) => Promise<Answer>, notInFile: string): () => void {
    const asking = new AbortController();
    this.waiting = true;
    question(asking.signal).then(
      (found) => asking.signal.aborted || this.settle(found, ""),
      (error) => {
        if (asking.signal.aborted) return;
        const absent = error instanceof Problem && error.kind === "NotInFile";
        this.settle(null, absent ? notInFile : messageOf(error));
      },
    );
    return () => asking.abort();
  }

  clear(): void {
    this.settle(null, "");
  }

  private settle(found: Answer | null, refused: string): void {
    Object.assign(this, { found, refused, waiting: false });
  }
}

export class Explaining {
  arrow = $state.raw<Explain["arrow"]>(null);
  against = $state<Explain["against"]>("mean");
  pin = $state.raw<Pin | null>(null);
  group = $state(false);
  tracing = $state(false);
  floor = $state(EXPLAIN.floor);
  part = $state<string | null>(null);
  path = $state.raw<TracePath | null>(null);
  readonly why = new Asked<Why>();
  readonly cut = new Asked<CutPath>();
  readonly trace = new Asked<Trace>();
  readonly traceCut = new Asked<CutPath>();

  apply(state: Explain): void {
    const { arrow, against, pin, group, tracing, floor, part, path } = state;
    Object.assign(this, { arrow, against, pin, group, tracing, floor, part, path });
  }

  values(): Explain {
    const { arrow, against, pin, group, tracing, floor, part, path } = this;
    return { arrow, against, pin, group, tracing, floor, part, path };
  }

  stopTracing(): void {
    Object.assign(this, { tracing: false, part: null, path: null });
  }

  /** Follow a part of a trace, or with null look at the whole sum. */
  follow(part: string | null): void {
    this.part = part;
    this.path = null;
  }

  /** Ask about an arrow; about the same one again, and it is closed. */
  toggle(query: number, key: number): void {
    if (this.arrow?.query === query && this.arrow.key === key) this.close();
    else this.open(query, key);
  }

  open(query: number, key: number): void {
    this.arrow = { query, key };
    this.pin = null;
    if (this.against === String(key)) this.against = "mean";
  }

  close(): void {
    this.arrow = null;
    this.pin = null;
    this.why.clear();
  }
}
