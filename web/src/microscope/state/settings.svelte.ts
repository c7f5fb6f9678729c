// Settings that two microscopes side by side share: head, view, measure, ablation.
import type { State } from "./address";

export class Settings {
  head = $state(""); // by name, since two models may number their heads differently
  view = $state<State["view"]>("map");
  measure = $state<State["measure"]>("weight");
  facing = $state<State["facing"]>("reads");
  aside = $state(false);
  compare = $state(true);
  how = $state<State["how"]>("zero");
  off = $state.raw<string[]>([]);
  lens = $state(false);
  patch = $state<State["patch"]>("scores");
  knockingOut = $state(false); // a click on a cell cuts its arrow

  apply(state: State): void {
    const { view, measure, facing, aside, compare, how, off, lens, patch } = state;
    Object.assign(this, {
      view,
      measure,
      facing,
      aside,
      compare,
      how,
      off,
      lens,
      patch,
      head: state.head ?? this.head,
    });
  }

  values(): Pick<State, "view" | "measure" | "facing" | "aside" | "compare" | "how" | "off" | "lens" | "patch"> {
    const { view, measure, facing, aside, compare, how, off, lens, patch } = this;
    return { view, measure, facing, aside, compare, how, off, lens, patch };
  }

  toggleOff(name: string): void {
    this.off = this.off.includes(name) ? this.off.filter((other) => other !== name) : [...this.off, name];
  }
}
