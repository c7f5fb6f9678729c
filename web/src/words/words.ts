// Every string of the page, by page and key, in the chosen language: `words.start.untouched`.
// Read them where they are shown, not when a module loads: the language is chosen before the page is mounted.
import en from "./en";

export type Words = typeof en;
type Language = () => Promise<{ default: Words }>;

/** Languages beside English; each is a folder with the same files and keys. */
export const LANGUAGES: Record<string, Language> = {};

export let words: Words = en;

/** Speak the first language of these that there is; English otherwise. */
export async function speak(wanted: readonly string[]): Promise<string> {
  for (const each of wanted) {
    const code = each.split("-")[0];
    if (code === "en") break;
    if (code in LANGUAGES) {
      words = (await LANGUAGES[code]()).default;
      return code;
    }
  }
  words = en;
  return "en";
}
