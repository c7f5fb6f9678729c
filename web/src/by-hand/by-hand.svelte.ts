// The state of the by-hand page: the edited weights and matrices, and the sums that the server worked out.
import type { components } from "../api";
import { PageState } from "../source/page-state.svelte";
import { askJson } from "../source/server";
import { addressOf, fieldsAt } from "../address-fields";
import { withWeight, normalised } from "./scorecard";
import { words } from "../words/words";

const INDICES = "₀₁₂₃₄₅₆₇₈₉";

type Schemas = components["schemas"];
export type Worked = Required<Schemas["WorkedResponse"]>;
export type Parts = Pick<Worked, "x" | "heads" | "values" | "W_O">;

const PARTS = ["x", "heads", "values", "W_O"] as const;
const parts = (card: Worked): Parts =>
  structuredClone({ x: card.x, heads: card.heads, values: card.values, W_O: card.W_O });

export class WorkedExample extends PageState {
  draft = $state<Parts | null>(null);
  card = $state.raw<Worked | null>(null);
  mixing = $state(false);
  fresh = $state(true); // the sums below belong to the numbers above
  private first: Parts | null = null;
  private asking: AbortController | null = null;

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
    const card = await this.ask({});
    if (!card) return;
    [this.card, this.first, this.draft] = [card, parts(card), parts(card)];
    await this.restore(address);
  }

  async restore(address: string): Promise<void> {
    const fields = fieldsAt(address);
    this.mixing = fields.get("wo") === "mixing";
    let edits: Partial<Parts> = {};
    try {
      edits = JSON.parse(fields.get("e") ?? "{}");
    } catch {
      this.problem = words.byHand.unreadable;
    }
    this.draft = { ...structuredClone(this.first!), ...edits };
    if (fields.has("e")) await this.work();
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

  async work(): Promise<void> {
    this.fresh = false;
    const card = await this.ask($state.snapshot(this.draft) as Schemas["WorkedRequest"]);
    if (card) [this.card, this.fresh] = [card, true];
  }

  private async ask(asked: Schemas["WorkedRequest"]): Promise<Worked | null> {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    let card: Worked | null = null;
    await this.guarded(async () => {
      card = await askJson<Worked>("lab/worked", asked, asking.signal);
    });
    return card;
  }
}
