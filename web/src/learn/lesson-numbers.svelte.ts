// The numbers of the open lesson by name. Prose, captions, code and figures read the same ones.

import { untrack } from "svelte";
import { grouped } from "../format";

export type Shown = number | string;

/** How a number in the text can be dragged: the figure that owns it says what a new value does. */
export interface Editor {
  label: string;
  least: number;
  most: number;
  step: number;
  set: (value: number) => void;
}

class LessonNumbers {
  private values = $state<Record<string, Shown>>({});
  editors = $state.raw<Record<string, Editor>>({});
  symbols = $state.raw<Record<string, string>>({}); // which symbol of the formula a number belongs to
  lit = $state<string | null>(null); // the symbol that was touched
  private made = new Map<string, unknown>();

  /** Another lesson is open. */
  reset(): void {
    [this.values, this.editors, this.symbols, this.lit] = [{}, {}, {}, null];
    this.made.clear();
  }

  publish(values: Record<string, Shown>): void {
    untrack(() => {
      for (const [name, value] of Object.entries(values)) if (this.values[name] !== value) this.values[name] = value;
    });
  }

  /** Numbers of the text that can be dragged there. */
  edit(editors: Record<string, Editor>, symbols: Record<string, string> = {}): void {
    untrack(() => {
      this.editors = { ...this.editors, ...editors };
      this.symbols = { ...this.symbols, ...symbols };
    });
  }

  value(name: string): Shown | undefined {
    return this.values[name];
  }

  /** A number in its format; what the program computed until a figure says otherwise. */
  show(name: string, form: string, computed: string): string {
    const value = this.values[name];
    return value === undefined ? computed : formatted(value, form);
  }

  /** One object for all figures of the lesson that share it. */
  shared<Made>(name: string, make: () => Made): Made {
    if (!this.made.has(name)) this.made.set(name, make());
    return this.made.get(name) as Made;
  }

  touch(symbol: string): void {
    this.lit = this.lit === symbol ? null : symbol;
  }
}

export const numbers = new LessonNumbers();

/** A value in the formats that lessons use: those of Python (.2f  ,  ,.0f), w for a weight, head|heads for a count. */
export function formatted(value: Shown, form: string): string {
  if (typeof value === "string") return value;
  if (form.includes("|")) {
    const [single, several] = form.split("|");
    return `${value} ${value === 1 ? single : several}`;
  }
  if (form === "w") {
    const text = Math.abs(value).toFixed(2);
    const short = text === "1.00" ? "1" : text === "0.00" ? "0" : text.replace(/^0/, "");
    return value < 0 && short !== "0" ? `−${short}` : short;
  }
  const found = /^(,?)(?:\.(\d+)f)?$/.exec(form);
  if (!found) return String(value);
  const digits = found[2] === undefined ? undefined : Number(found[2]);
  if (found[1])
    return grouped(
      value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits ?? 3 }),
    ).replace("-", "−");
  return (digits === undefined ? String(value) : value.toFixed(digits)).replace("-", "−");
}

/** Code with its live numbers as they are now. */
export function filled(text: string): string {
  return text.replace(/\{\{([^{}:=]+)(?::([^{}=]*))?=([^{}]*)\}\}/g, (_, name, form, computed) =>
    numbers.show(name, form ?? "", computed),
  );
}
