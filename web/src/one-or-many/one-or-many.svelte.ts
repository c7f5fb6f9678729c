// The state of the one-or-many page: stored results, runs on this machine, width and heads.
import type { components } from "../api";
import type { Table } from "../save/picture";
import { events } from "../source/event-stream";
import { PageState } from "../source/page-state.svelte";
import { askJson } from "../source/server";
import { addressOf, fieldsAt, whole } from "../address-fields";

type Schemas = components["schemas"];
export type Outcome = Required<Schemas["OutcomeFrame"]>;
export type Results = Required<Schemas["ResultsResponse"]>;
type Told = Required<Schemas["RunBegun"]> | Outcome;

export const WIDTHS = [8, 16, 32] as const;
export type Width = (typeof WIDTHS)[number];
export const SEEDS = 3;
export const STEPS = { arms: 600, partition: 1200 };

export interface Running {
  what: string; // which picture it belongs to
  planned: string[];
  done: number;
  since: number;
}

type Column = (each: Outcome, where: string) => string | number;

/** The numbers of a saved picture: outcomes of the release, then those run here. */
export function outcomesTable(stored: Outcome[], here: Outcome[], first: Record<string, Column>): Table {
  const columns: Record<string, Column> = {
    ...first,
    "both right": (each) => each.average,
    low: (each) => each.low,
    high: (each) => each.high,
    seeds: (each) => each.accuracies.join(" "),
  };
  const row = (where: string) => (each: Outcome) => Object.values(columns).map((column) => column(each, where));
  return { columns: Object.keys(columns), rows: [...stored.map(row("release")), ...here.map(row("run here"))] };
}

export class Experiments extends PageState {
  results = $state.raw<Results | null>(null);
  ran = $state.raw<Record<string, Outcome[]>>({}); // by picture: "arms 0", "partition 16"
  running = $state.raw<Running | null>(null);
  width = $state<Width>(16);
  heads = $state(4);
  private going: AbortController | null = null;

  /** Numbers of each head at this width. */
  get dHead(): number {
    return this.width / this.heads;
  }

  get counts(): number[] {
    return Array.from({ length: Math.log2(this.width) + 1 }, (_, power) => 2 ** power);
  }

  async start(address: string): Promise<void> {
    await this.guarded(async () => {
      this.results = await askJson<Results>("lab/one-or-many");
    });
    this.restore(address);
  }

  restore(address: string): void {
    const fields = fieldsAt(address);
    this.width = WIDTHS.find((width) => width === whole(fields.get("width"))) ?? 16;
    const heads = whole(fields.get("heads"), 1, 32);
    this.heads = heads !== null && this.counts.includes(heads) ? heads : Math.min(4, this.width);
  }

  address(): string {
    return addressOf("one-or-many", {
      width: this.width === 16 ? null : this.width,
      heads: this.heads === 4 ? null : this.heads,
    });
  }

  setWidth(width: Width): void {
    this.width = width;
    this.heads = Math.min(this.heads, width);
  }

  /** The committed outcomes of this width. */
  stored(): Outcome[] {
    return (this.results?.partition ?? []).filter((each) => each.n_heads * each.d_head === this.width) as Outcome[];
  }

  async run(experiment: "arms" | "partition", more: { task?: number; heads?: number[] } = {}): Promise<void> {
    this.going?.abort();
    const going = (this.going = new AbortController());
    const what = experiment === "arms" ? `arms ${more.task ?? 0}` : `partition ${this.width}`;
    const asked: Schemas["RunRequest"] = {
      experiment,
      task: more.task ?? 0,
      d_model: this.width,
      heads: more.heads ?? [],
      seeds: SEEDS,
      steps: STEPS[experiment],
    };
    this.running = { what, planned: [], done: 0, since: Date.now() };
    await this.guarded(async () => {
      for await (const told of events<Told>("lab/one-or-many", asked, going.signal)) {
        if (told.event === "begun") this.running = { ...this.running!, planned: told.arms };
        else {
          this.ran = {
            ...this.ran,
            [what]: [...(this.ran[what] ?? []).filter((other) => other.arm !== told.arm), told],
          };
          this.running = { ...this.running!, done: this.running!.done + 1 };
        }
      }
    });
    if (this.going === going) this.running = null;
  }

  stop(): void {
    this.going?.abort();
    this.running = null;
  }
}
