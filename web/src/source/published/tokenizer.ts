// Text into tokens in the browser, by the model's own tokenizer.json.
import { Tokenizer } from "@huggingface/tokenizers";
import { Problem } from "../problem";
import { type FoundToken, type TokenCard } from "../source";

/** What tokenizer.json says of words that are not in its vocabulary. */
interface Vocabulary {
  model?: { unk_token?: string | null; vocab?: Record<string, number> };
}

export class Tokens {
  private readonly tokenizer: Tokenizer;
  private readonly unknown: number | undefined;

  constructor(
    tokenizer: object,
    config: object,
    private readonly texts: string[],
  ) {
    this.tokenizer = new Tokenizer(tokenizer, config);
    const { unk_token, vocab } = (tokenizer as Vocabulary).model ?? {};
    this.unknown = unk_token ? vocab?.[unk_token] : undefined;
  }

  ids(text: string, special = true): number[] {
    // A word of a WordLevel vocabulary that is not in it comes back as undefined.
    const found: (number | undefined)[] = this.tokenizer.encode(text, { add_special_tokens: special }).ids;
    const ids = found.map((id) => id ?? this.unknown);
    if (ids.some((id) => id === undefined))
      throw new Problem("InputError", "this text has words that the model's tokenizer has no token for");
    return ids as number[];
  }

  textOf(id: number): string {
    return this.texts[id] ?? `[${id}]`;
  }

  /** The tokens at their places in the text; one that the tokenizer added has none. */
  cards(ids: number[], text: string): TokenCard[] {
    let at = 0;
    return ids.map((id) => {
      const shown = this.textOf(id);
      const bytes = shown.includes("\ufffd"); // a part of a character
      const found = bytes ? at : text.indexOf(shown.trim() || shown, at);
      const near = found >= 0 && found - at <= 2;
      if (!near) return { text: shown, id, start: null, end: null };
      const end = bytes ? Math.min(at + 1, text.length) : found + (shown.trim() || shown).length;
      const start = at;
      at = bytes ? at : end;
      return { text: shown, id, start, end: Math.max(end, start + 1) };
    });
  }

  /** The first token of what somebody typed, and that of the same after a space. */
  find(typed: string): FoundToken {
    if (!typed)
      throw new Problem("InputError", "no token was typed; type a word, with a space before it where the text has one");
    const first = this.ids(typed, false);
    if (!first.length)
      throw new Problem("InputError", `${JSON.stringify(typed)} has no tokens for this model; type a word or a sign`);
    const named = (id: number) => ({ id, text: this.textOf(id) });
    const other = /^\s/.test(typed) ? [] : this.ids(` ${typed}`, false);
    const spaced = other.length && other[0] !== first[0] && other.length <= first.length ? named(other[0]) : null;
    return { ...named(first[0]), of: first.length, spaced };
  }
}
