// The state of the census page: which scan, question and head, and the scan it is compared with.
import type { components } from "../api";
import { PageState } from "../source/page-state.svelte";
import { askContainer, askJson } from "../source/server";
import { messageOf } from "../source/source";
import { addressOf, fieldsAt, queryOf, whole } from "../address-fields";
import type { Numbers, Table } from "../wire";
import { headNames } from "./ranking";

type Schemas = components["schemas"];
export type CensusCard = Schemas["CensusResponse"];
export type CensusHead = Schemas["CensusHead"];
export type CensusLine = Schemas["CensusSummary"];
export type Quantity = Schemas["Quantity"];
export type Part = "mean" | "low" | "high" | "null" | "null_low" | "null_high" | "smallest" | "largest" | "count";

export class CensusReader extends PageState {
  lines = $state.raw<CensusLine[] | null>(null);
  card = $state.raw<CensusCard | null>(null);
  against = $state.raw<Schemas["ComparisonResponse"] | null>(null);
  detail = $state.raw<CensusHead | null>(null);
  number = $state(1);
  other = $state(0); // the census it is compared with; 0 for none
  question = $state("induction");
  head = $state("");
  order = $state<"up" | "down">("down");
  all = $state(false); // the table shows every question, or one with its interval and null

  private arrays: Record<string, Table> = {};
  private changes: Record<string, Table> = {};
  private requests = 0;

  readonly heads = $derived(this.card ? headNames(this.card.sites) : []);
  readonly quantity = $derived(this.card?.quantities.find((each) => each.name === this.question));
  readonly column = $derived(this.heads.indexOf(this.head));
  readonly comparing = $derived(this.against !== null && this.other > 0);

  async load(): Promise<void> {
    this.restore(location.hash);
    await this.guarded(async () => {
      this.lines = await askJson<Schemas["CensusSummary"][]>("censuses");
    });
    if (this.lines?.length) await this.open(this.number, this.other);
  }

  /** List the censuses again and open one that is new. */
  async show(number: number): Promise<void> {
    this.detail = null;
    await this.guarded(async () => {
      this.lines = await askJson<Schemas["CensusSummary"][]>("censuses");
    });
    await this.open(number);
  }

  /** The last census stays until the next one is here. */
  async open(number: number, other = 0): Promise<void> {
    const request = ++this.requests;
    const current = () => request === this.requests;
    await this.guarded(async () => {
      const told = await askContainer(`censuses/${number}`);
      const both = other ? await askContainer(`censuses/${number}/against/${other}`) : null;
      if (!current()) return;
      this.arrays = told.arrays;
      this.changes = both?.arrays ?? {};
      this.card = told.values as CensusCard;
      this.against = (both?.values as Schemas["ComparisonResponse"]) ?? null;
      this.number = number;
      this.other = other;
      this.selectKnown();
    }, current);
  }

  /** A question and a head that this census has. */
  private selectKnown(): void {
    const card = this.card!;
    const known = (this.against ?? card).quantities;
    if (!known.some((each) => each.name === this.question)) this.question = known[0].name;
    if (!this.heads.includes(this.head)) this.head = this.heads[this.best()];
  }

  private best(): number {
    const values = Array.from(this.values("mean"));
    return Math.max(0, values.indexOf(Math.max(...values.filter(Number.isFinite))));
  }

  async fetchHead(): Promise<void> {
    const [number, head, question] = [this.number, this.head, this.question];
    if (!this.card || !head || (this.detail?.head === head && this.detail.question === question)) return;
    try {
      const told = await askJson<CensusHead>(`censuses/${number}/head?${queryOf({ head, question })}`);
      if (this.head === head && this.question === question) this.detail = told;
    } catch (error) {
      this.problem = messageOf(error);
    }
  }

  /** One quantity over all heads. */
  values(part: Part, question = this.question): Numbers {
    const at = this.card!.quantities.findIndex((each) => each.name === question);
    const { data, shape } = this.arrays[part];
    return data.subarray(at * shape[1], (at + 1) * shape[1]) as Numbers;
  }

  changed(part: "before" | "after" | "low" | "high", question = this.question): Numbers {
    const at = this.against!.quantities.findIndex((each) => each.name === question);
    const { data, shape } = this.changes[part];
    return data.subarray(at * shape[1], (at + 1) * shape[1]) as Numbers;
  }

  difference(column: number): number {
    return this.changed("after")[column] - this.changed("before")[column];
  }

  ask(question: string): void {
    this.order = question === this.question && this.order === "down" ? "up" : "down";
    this.question = question;
  }

  restore(hash: string): void {
    const fields = fieldsAt(hash);
    this.number = whole(fields.get("census"), 1) ?? 1;
    this.other = whole(fields.get("against"), 1) ?? 0;
    this.question = fields.get("question") ?? "induction";
    this.head = fields.get("head") ?? "";
    this.order = fields.get("order") === "up" ? "up" : "down";
    this.all = fields.get("table") === "all";
  }

  address(): string {
    return addressOf("census", {
      census: this.number,
      against: this.other || null,
      question: this.question,
      head: this.head,
      order: this.order === "up" ? "up" : null,
      table: this.all ? "all" : null,
    });
  }
}
