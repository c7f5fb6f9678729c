// Settings that two microscopes side by side share: head, view, measure, ablation, sampling.
import type { Sampling, State } from "./address";

export class Settings {
  head = $state(""); // by name, since two models may number their heads differently
  view = $state<State["view"]>("map");
  measure = $state<State["measure"]>("weight");
  facing = $state<State["facing"]>("reads");
  aside = $state(false);
  compare = $state(true);
  how = $state<State["how"]>("zero");
  off = $state.raw<string[]>([]);
  onRules = $state.raw<string[]>([]); // heads that attend where their rules say
  words = $state(false); // the pattern beside its rule
  axis = $state<State["axis"]>("log");
  sampling = $state.raw<Sampling | null>(null);
  knockingOut = $state(false); // a click on a cell cuts its arrow

  apply(state: State): void {
    const { view, measure, facing, aside, compare, how, off, onRules, words, axis, sampling } = state;
    Object.assign(this, {
      view,
      measure,
      facing,
      aside,
      compare,
      how,
      off,
      onRules,
      words,
      axis,
      sampling,
      head: state.head ?? this.head,
    });
  }

  values(): Pick<
    State,
    "view" | "measure" | "facing" | "aside" | "compare" | "how" | "off" | "onRules" | "words" | "axis" | "sampling"
  > {
    const { view, measure, facing, aside, compare, how, off, onRules, words, axis, sampling } = this;
    return { view, measure, facing, aside, compare, how, off, onRules, words, axis, sampling };
  }

  /** Let a head run on its rules, or read again; one that is off has no use for rules. */
  toggleRules(name: string): void {
    this.onRules = this.onRules.includes(name)
      ? this.onRules.filter((other) => other !== name)
      : [...this.onRules, name];
    this.off = this.off.filter((other) => !this.onRules.includes(other));
  }

  toggleOff(name: string): void {
    this.onRules = this.onRules.filter((other) => other !== name);
    this.off = this.off.includes(name) ? this.off.filter((other) => other !== name) : [...this.off, name];
  }
}
