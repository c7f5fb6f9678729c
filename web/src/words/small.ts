import { language } from "./words";

/** A title in the middle of a sentence: small in English; German nouns keep their capital. */
export const small = (title: string): string => (language === "en" ? title.toLowerCase() : title);
