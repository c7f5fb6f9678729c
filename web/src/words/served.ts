// Sentences that the program itself makes (a head's question, a remark, a conclusion), in the chosen language.
import { localised } from "../format";
import { words } from "./words";

const templates = new WeakMap<object, [RegExp, string][]>();

/** The templates of a language: `{1}` and `{2}` stand for names and numbers. */
function compiled(all: Record<string, string>): [RegExp, string][] {
  const known = templates.get(all);
  if (known) return known;
  const made = Object.entries(all)
    .filter(([english]) => english.includes("{1}"))
    .map(([english, theirs]): [RegExp, string] => {
      const names: string[] = [];
      const source = english
        .split(/(\{\d\})/)
        .map((part) =>
          /^\{\d\}$/.test(part) ? (names.push(part), "(.+?)") : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"),
        )
        .join("");
      return [new RegExp(`^${source}$`, "s"), theirs.replace(/\{(\d)\}/g, (one) => `$${names.indexOf(one) + 1}`)];
    });
  templates.set(all, made);
  return made;
}

/** A number alone, with its thousands and decimals as the language writes them. Not 5.6, which may be a head. */
function parted(text: string): string {
  if (/^\d{1,3}(,\d{3})+(\.\d+)?$/.test(text)) return localised(text.replaceAll(",", words.ui.thousands));
  return /^−?0?\.\d+$/.test(text) ? localised(text) : text;
}

/** A text in the words of a catalogue, its names and numbers put in as `put` writes them; null where it has none. */
function translated(text: string, all: Record<string, string>, put: (part: string) => string): string | null {
  if (text in all) return all[text];
  for (const [pattern, theirs] of compiled(all)) {
    const found = pattern.exec(text);
    if (found) return theirs.replace(/\$(\d)/g, (_, at) => put(found[Number(at)]));
  }
  return null;
}

/** What the program said, translated where the catalogue has it, else as it is. */
export function served(text: string): string {
  return translated(text, words.served, parted) ?? parted(text);
}

/** What a lesson's code printed, line by line; numbers stay as Python writes them. */
export function printed(output: string): string {
  const line = (each: string) => translated(each, words.printed, (part) => part) ?? each;
  return output.split("\n").map(line).join("\n");
}
