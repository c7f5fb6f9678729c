// Numbers and tokens as text.
import { percent as edges } from "../../src/headscope/heads/sentences.json";
import { words as catalogue } from "./words/words";

/** A number's decimal point as the language writes it: .69 or ,69. */
const pointed = (number: string) => number.replace(".", catalogue.ui.decimal);

/** A number with so many decimals: 3.58, −0.20. */
export function fixed(value: number, digits: number): string {
  return pointed(value.toFixed(digits)).replace("-", "−");
}

/** A weight: .69, with a real minus and no leading zero. */
export function short(value: number, digits = 2): string {
  if (!Number.isFinite(value)) return "–";
  const text = Math.abs(value)
    .toFixed(digits)
    .replace(/^0(?=\.)/, "");
  return (value < 0 && Number(text) !== 0 ? "−" : "") + pointed(text);
}

/** A difference: +1.54, −0.08, 0.00. */
export function signed(value: number, digits = 2): string {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return pointed(text);
  return (value > 0 ? "+" : "−") + pointed(text);
}

/** A probability in per cent with three figures, the least that tells neighbours apart. */
export function percent(probability: number): string {
  const value = probability * 100;
  if (value > 0 && value < 0.005) return `<${pointed(".01")}`;
  return fixed(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}

/** A share in a sentence: whole percent. */
export function share(value: number): string {
  if (value > 0 && value < 0.01) return edges.least;
  return value > 0.99 && value < 1 ? edges.most : `${Math.round(100 * value)}%`;
}

/** The thousands of a number as the language parts them: 8,192 or 8 192. */
export function grouped(number: string): string {
  return number.replaceAll(",", catalogue.ui.thousands);
}

export function count(value: number): string {
  return grouped(value.toLocaleString("en"));
}

/** A template with its {places} filled. */
export function fill(template: string, values: Record<string, string | number>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name]));
}

const CONTROLS = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** A token as it can be read: without its leading space, with its line breaks and lone spaces shown. */
export function visible(text: string): string {
  const shown = text
    .replace(/^[ ▁Ġ]/, "")
    .replace(/\r?\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(CONTROLS, (control) => (control < " " ? String.fromCharCode(0x2400 + control.charCodeAt(0)) : "�"));
  return shown.trim() === "" ? (shown === "" ? "␣" : shown.replace(/ /g, "␣")) : shown;
}

/** A message as a sentence: errors of the program begin small and end without a stop. */
export function sentence(message: string): string {
  const begun = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

export function list(words: string[], most: number): string {
  if (words.length <= most) return words.join(", ");
  return catalogue.ui.more(words.slice(0, most).join(", "), words.length - most);
}

/** "layer 5" in a plain decoder; elsewhere a site's own name, as in decoder.5.cross. */
export function siteTitle(site: string): string {
  return /^\d+$/.test(site) ? catalogue.ui.layer(site) : site;
}

/** A token as it is typed and shown in a field: spaces at its front can be seen, control characters as ‹202e›. */
export function spaced(text: string): string {
  const shown = text.replace(/^[ ]+/, (spaces) => "␣".repeat(spaces.length)).replace(/\n/g, "↵");
  return shown.replace(CONTROLS, (control) => `‹${control.charCodeAt(0).toString(16)}›`);
}

export function unspaced(typed: string): string {
  const codes = typed.replace(/‹([0-9a-f]{1,4})›/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
  return codes.replace(/␣/g, " ").replace(/↵/g, "\n");
}
