// Every string of the page, by page and key, in the chosen language: `words.start.untouched`.
// Read them where they are shown, not when a module loads: the language is chosen before the page is mounted.
import type en from "./en";
import first from "./en/first";

export type Words = typeof en;
type Language = () => Promise<{ default: Words }>;

/** Languages other than English, such as `fr: () => import("./fr")`: a folder with the same keys, fetched when it is spoken. */
export const LANGUAGES: Record<string, Language> = {};

export let words = first as Words;
/** The code of the language that is spoken. */
export let language = "en";

/** Speak the first language of these that there is; English otherwise. */
export async function speak(wanted: readonly string[]): Promise<string> {
  const code = wanted.map((each) => each.split("-")[0]).find((each) => each === "en" || each in LANGUAGES) ?? "en";
  words = code === "en" ? (first as Words) : (await LANGUAGES[code]()).default;
  language = code;
  return code;
}

/** Fetch what a first visit does not need; a page other than Start waits for it. */
export async function allWords(): Promise<void> {
  if (language === "en") words = { ...words, ...(await import("./en/rest")).default };
}

/** The languages that a visitor wants, most wanted first: the address's (`?lang=fr`), then the browser's. */
export function wanted(): string[] {
  const asked = new URLSearchParams(location.search).get("lang");
  return [...(asked === null ? [] : [asked]), ...navigator.languages];
}
