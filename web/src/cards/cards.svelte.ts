// The state of the card page: which model, changed numbers of heads, and the context length.
import type { components } from "../api";
import { PageState } from "../source/page-state.svelte";
import { askJson } from "../source/server";
import { addressOf, fieldsAt, whole } from "../address-fields";
import { nearestLength } from "./units";

type Schemas = components["schemas"];
export type CardLine = Schemas["CardSummary"];
export type CardAnswer = Schemas["CardResponse"];
export type Sizes = Partial<
  Record<"d_model" | "n_heads" | "n_kv_heads" | "d_head" | "n_layers" | "d_ff" | "vocabulary", number>
>;
export type From = "name" | "config" | "sizes";

const FIRST = "llama-3.1-8b";
const LONGEST_CONFIG = 1500; // characters of a pasted config that an address carries
export const SIZES = ["d_model", "n_heads", "n_kv_heads", "d_head", "n_layers", "d_ff", "vocabulary"] as const;

export class CardReader extends PageState {
  lines = $state.raw<CardLine[]>([]);
  card = $state.raw<CardAnswer | null>(null);
  from = $state<From>("name");
  name = $state(FIRST);
  config = $state("");
  sizes = $state<Sizes>({ d_model: 768, n_heads: 12, n_kv_heads: 12, n_layers: 12 });
  heads = $state<number | null>(null);
  kvHeads = $state<number | null>(null);
  length = $state(0); // wanted; the nearest that the card counts is shown
  fp8 = $state(false);
  private asking: AbortController | null = null;

  readonly at = $derived(this.card ? nearestLength(this.card.lengths, this.length || this.card.context || 8192) : 0);
  readonly shown = $derived(this.card?.lengths[this.at] ?? 0);
  readonly scale = $derived(this.fp8 ? 0.5 : 1); // the card counts in fp16

  async load(): Promise<void> {
    this.restore(location.hash);
    await this.guarded(async () => {
      this.lines = await askJson<Schemas["CardSummary"][]>("cards");
    });
    await this.read();
  }

  /** Ask for the card; if it cannot be read the last one stays. */
  async read(): Promise<void> {
    this.asking?.abort();
    const mine = (this.asking = new AbortController());
    const what =
      this.from === "name"
        ? { name: this.name }
        : this.from === "config"
          ? { config: this.config }
          : { sizes: this.sizes };
    await this.guarded(async () => {
      this.card = await askJson("card", { ...what, n_heads: this.heads, n_kv_heads: this.kvHeads }, mine.signal);
    });
  }

  pick(name: string): void {
    Object.assign(this, { from: "name", name, heads: null, kvHeads: null });
    this.read();
  }

  paste(config: string): void {
    Object.assign(this, { from: "config", config, heads: null, kvHeads: null });
    this.read();
  }

  type(sizes: Sizes): void {
    Object.assign(this, { from: "sizes", sizes, heads: null, kvHeads: null });
    this.read();
  }

  slideHeads(heads: number): void {
    this.heads = heads === this.card!.published.n_heads ? null : heads;
    if (this.kvHeads !== null && heads % this.kvHeads) this.kvHeads = null;
    this.read();
  }

  slideKV(kvHeads: number): void {
    this.kvHeads = this.heads === null && kvHeads === this.card!.published_kv_heads ? null : kvHeads;
    this.read();
  }

  asPublished(): void {
    this.heads = this.kvHeads = null;
    this.read();
  }

  restore(hash: string): void {
    const fields = fieldsAt(hash);
    const config = fields.get("config");
    const sizes = Object.fromEntries(
      SIZES.flatMap((size) => (whole(fields.get(size), 1) === null ? [] : [[size, whole(fields.get(size), 1)!]])),
    ) as Sizes;
    this.from = config ? "config" : sizes.d_model && sizes.n_heads ? "sizes" : "name";
    if (config) this.config = config;
    if (this.from === "sizes") this.sizes = sizes;
    this.name = fields.get("card") ?? FIRST;
    this.heads = whole(fields.get("heads"), 1);
    this.kvHeads = whole(fields.get("kv"), 1);
    this.length = whole(fields.get("length"), 1) ?? 0;
    this.fp8 = fields.get("dtype") === "fp8";
  }

  address(): string {
    const what =
      this.from === "name"
        ? { card: this.name }
        : this.from === "sizes"
          ? { ...this.sizes }
          : this.config.length <= LONGEST_CONFIG
            ? { config: this.config }
            : {};
    return addressOf("cards", {
      ...what,
      heads: this.heads,
      kv: this.kvHeads,
      length: this.length || null,
      dtype: this.fp8 ? "fp8" : null,
    });
  }
}
