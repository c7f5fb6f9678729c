// Names that a lesson's code made, in its figures and live texts, in the chosen language. The code itself stays as it is.
import { served } from "../words/served";
import type { Lesson } from "./learn.svelte";

/** Every string of a figure's props; words of a text that the model reads are not in the catalogue, and stay. */
function deep(value: unknown): unknown {
  if (typeof value === "string") return served(value);
  if (Array.isArray(value)) return value.map(deep);
  if (value !== null && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, deep(each)]));
  return value;
}

const live = (text: string) => text.replace(/(\{\{[^{}=]+=)([^{}]*)(?=\}\})/g, (_, name, said) => name + served(said));

export function translated(lesson: Lesson): Lesson {
  return {
    ...lesson,
    idea: live(lesson.idea),
    computed: live(lesson.computed),
    try_it: live(lesson.try_it),
    figures: lesson.figures.map((figure) => ({
      ...figure,
      props: deep(figure.props) as typeof figure.props,
      caption: live(figure.caption),
    })),
  };
}
