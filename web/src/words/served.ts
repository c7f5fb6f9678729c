// Sentences that the program itself makes (a head's question, a remark, a conclusion), in the chosen language.
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

/** A number alone, with its thousands as the language parts them. */
const parted = (text: string) =>
  /^\d{1,3}(,\d{3})+(\.\d+)?$/.test(text) ? text.replaceAll(",", words.ui.thousands) : text;

/** What the program said, translated where the catalogue has it, else as it is. */
export function served(text: string): string {
  const all = words.served;
  if (text in all) return all[text];
  for (const [pattern, theirs] of compiled(all)) {
    const found = pattern.exec(text);
    if (found) return theirs.replace(/\$(\d)/g, (_, at) => parted(found[Number(at)]));
  }
  return parted(text);
}
