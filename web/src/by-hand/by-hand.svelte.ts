// The state of the by-hand page: the edited weights and matrices, and the sums that follow from them.
import { PageState } from "../source/page-state.svelte";
import { askJson } from "../source/server";
import { messageOf } from "../source/source";
import { addressOf, fieldsAt } from "../address-fields";
import { withWeight, normalised } from "./scorecard";
import { workedExample, type Example, type Worked } from "./worked-example";
import { words } from "../words/words";

const INDICES = "₀₁₂₃₄₅₆₇₈₉";

export type { Worked };
export type Parts = Pick<Example, "x" | "heads" | "values" | "W_O">;

const PARTS = ["x", "heads", "values", "W_O"] as const;
const parts = (card: Example): Parts =>
  structuredClone({ x: card.x, heads: card.heads, values: card.values, W_O: card.W_O });

/** Whether an edit has the shape of what it replaces: rows as long, the same words, finite numbers. */
function alike(one: unknown, edit: unknown): boolean {
  if (typeof one !== "object" || one === null)
    return typeof one === typeof edit && (typeof edit !== "number" || Number.isFinite(edit));
  if (typeof edit !== "object" || edit === null) return false;
  const [keys, theirs] = [Object.keys(one), edit as Record<string, unknown>];
  return (
    keys.length === Object.keys(theirs).length &&
    keys.every((key) => alike((one as Record<string, unknown>)[key], theirs[key]))
  );
}

export class WorkedExample extends PageState {
  draft = $state<Parts | null>(null);
  card = $state.raw<Worked | null>(null);
  mixing = $state(false);
  fresh = $state(true); // the sums below belong to the numbers above
  private example: Example | null = null;
  private first: Parts | null = null;

  /** What may be read: the words that have a value. */
  get words(): string[] {
    return Object.keys(this.draft?.values ?? {});
  }

  get changed(): (keyof Parts)[] {
    return this.draft === null
      ? []
      : PARTS.filter((part) => JSON.stringify(this.draft![part]) !== JSON.stringify(this.first![part]));
  }

  async start(address: string): Promise<void> {
    const done = await this.guarded(async () => {
      this.example = await askJson<Example>("lab/worked");
    });
    if (!done) return;
    [this.first, this.draft] = [parts(this.example!), parts(this.example!)];
    this.card = workedExample(this.example!);
    this.restore(address);
  }

  restore(address: string): void {
    const fields = fieldsAt(address);
    this.mixing = fields.get("wo") === "mixing";
    let edits: Partial<Parts> = {};
    try {
      edits = JSON.parse(fields.get("e") ?? "{}");
    } catch {
      edits = { x: {} };
    }
    const readable = Object.keys(edits ?? {}).every((part) => alike(this.first![part as keyof Parts], edits[part as keyof Parts])); // prettier-ignore
    this.draft = { ...structuredClone(this.first!), ...(readable ? edits : {}) };
    if (fields.has("e")) this.work();
    if (!readable) this.problem = words.byHand.unreadable;
  }

  address(): string {
    const edits = Object.fromEntries(this.changed.map((part) => [part, this.draft![part]]));
    return addressOf("by-hand", {
      wo: this.mixing ? "mixing" : null,
      e: Object.keys(edits).length ? JSON.stringify(edits) : null,
    });
  }

  /** Change the draft, and have every sum worked out again. */
  change(edit: (draft: Parts) => void): void {
    edit(this.draft!);
    this.work();
  }

  /** A dragged share: the others make room. */
  drag(head: number, word: string, value: number): void {
    this.change((draft) => (draft.heads[head].scorecard = withWeight(draft.heads[head].scorecard, word, value)));
  }

  normalise(head: number): void {
    this.change((draft) => (draft.heads[head].scorecard = normalised(draft.heads[head].scorecard)));
  }

  /** Take the shares that x and W_Q lead to. */
  takeSoftmax(head: number): void {
    this.change((draft) => (draft.heads[head].scorecard = normalised(this.card!.work[head].weights)));
  }

  reset(): void {
    this.draft = structuredClone(this.first!);
    this.work();
  }

  /** The arithmetic of a step as it stands on the page: "o₁, number 2 = .7·.1 + …". */
  lines(title: string): string[] {
    const found = this.card?.steps.find((step) => step.title === title)?.lines ?? [];
    return found.map((line) =>
      line.replace(/^([a-z])(\d?)\[(\d+)\]/, (_, name, head, at) =>
        words.byHand.sumAt(name + (head && INDICES[Number(head)]), at),
      ),
    );
  }

  work(): void {
    this.fresh = false;
    try {
      this.card = workedExample({ ...this.example!, ...($state.snapshot(this.draft) as Parts) });
      [this.fresh, this.problem] = [true, ""];
    } catch (error) {
      this.problem = messageOf(error);
    }
  }
}
