// Every string of the page, by page and key, in the chosen language: `words.start.untouched`.
// Read them where they are shown, not when a module loads: the language is chosen before the page is mounted.
import { recall, remember } from "../storage";
import en from "./en";

export type Words = typeof en;
type Language = () => Promise<{ default: Words }>;

/** Languages beside English; each is a folder with the same files and keys, fetched when it is spoken. */
export const LANGUAGES: Record<string, Language> = {
  de: () => import("./de"),
};

/** What each language calls itself, for the switch. */
export const NAMES: Record<string, string> = { en: "English", de: "Deutsch" };

const KEY = "headscope.language";

export let words: Words = en;
/** The code of the language that is spoken. */
export let language = "en";

/** Speak the first language of these that there is; English otherwise. */
export async function speak(wanted: readonly string[]): Promise<string> {
  const code = wanted.map((each) => each.split("-")[0]).find((each) => each === "en" || each in LANGUAGES) ?? "en";
  words = code === "en" ? en : (await LANGUAGES[code]()).default;
  language = code;
  return code;
}

/** The languages that a visitor wants, most wanted first: the address's (`?lang=de`), the one chosen before, the browser's. */
export function wanted(): string[] {
  const asked = [new URLSearchParams(location.search).get("lang"), recall(KEY)];
  return [...asked.filter((each) => each !== null && each in NAMES), ...navigator.languages] as string[];
}

/** Choose a language for this browser, and show the page in it. */
export function choose(code: string): void {
  remember(KEY, code);
  const address = new URL(location.href);
  if (address.searchParams.has("lang")) {
    address.searchParams.set("lang", code);
    location.replace(address);
  } else location.reload();
}
