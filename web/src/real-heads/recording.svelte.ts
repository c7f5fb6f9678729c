// The state of Real heads: a recording of one model's heads on a few sentences, and which of them is looked at.
import { addressOf, fieldsAt, whole } from "../address-fields";
import { fromBase64 } from "../wire";
import { PageState } from "../source/page-state.svelte";
import { askJson } from "../source/server";
import { share, visible } from "../format";
import { words } from "../words/words";

const said = words.real;

export interface Card {
  id: string;
  group: string;
  head: number; // among all heads of the model
  sentence: string;
  query: number;
  shown: number[]; // the next words that are followed, of the sentence's six
  short: string;
  name: string;
  tests: string;
  see: string;
  more: string;
  limits: string;
  after: { head: number; weights: string } | ""; // an earlier head that it depends on, and its pattern without that one
  general: { says: string; points: [text: string, words: string[], before: number, after: number][] };
  paper: [title: string, address: string];
}

interface Recorded {
  key: string;
  text: string;
  tokens: string[];
  next: string[];
  weights: string;
  probabilities: string;
  changes: string;
}

interface Recording {
  model: string;
  layers: number;
  heads: number;
  kv_heads: number;
  sentences: Recorded[];
  cards: Card[];
}

const numbers = (text: string) => new Uint16Array(fromBase64(text));
const inTriangle = (weights: Uint16Array, query: number, key: number, from = 0) =>
  key > query ? 0 : weights[from + (query * (query + 1)) / 2 + key] / 65535;

/** A recorded sentence: every head's pattern, and the next word with all heads and without each. */
export class Sentence {
  readonly length: number;
  readonly bytes: Uint8Array; // [head, query, key], 255·√weight, for thumbnails
  private weights: Uint16Array; // [head, lower triangle]
  private probabilities: Uint16Array;
  private changes: Uint16Array;

  constructor(readonly recorded: Recorded) {
    const length = (this.length = recorded.tokens.length);
    this.weights = numbers(recorded.weights);
    this.probabilities = numbers(recorded.probabilities);
    this.changes = numbers(recorded.changes);
    this.bytes = Uint8Array.from({ length: this.changes.length * length ** 2 }, (_, at) => {
      const [query, key] = [Math.floor(at / length) % length, at % length];
      return Math.round(255 * Math.sqrt(this.weight(Math.floor(at / length ** 2), query, key)));
    });
  }

  weight(head: number, query: number, key: number): number {
    return inTriangle(this.weights, query, key, (head * this.length * (this.length + 1)) / 2);
  }

  /** The probability of these next words, without a head, or with all (null). */
  next(words: number[], without: number | null): number {
    const row = without === null ? 0 : (without + 1) * this.recorded.next.length;
    return words.reduce((sum, word) => sum + this.probabilities[row + word] / 65535, 0);
  }

  rank(head: number): number {
    return 1 + this.changes.filter((change) => change > this.changes[head]).length;
  }

  /** The words that a row attends to, most first; without the first word if it is not wanted. */
  strongest(head: number, query: number, least = 0, from = 0): number[] {
    const keys = Array.from({ length: query + 1 - from }, (_, key) => key + from);
    return keys
      .filter((key) => this.weight(head, query, key) > least)
      .sort((a, b) => this.weight(head, query, b) - this.weight(head, query, a));
  }
}

export class Gallery extends PageState {
  model = $state.raw<Recording | null>(null);
  card = $state.raw<Card | null>(null);
  head = $state(0);
  row = $state(0);
  off = $state(false);
  cut = $state(false); // the pattern is that without the earlier head
  private sentences: Record<string, Sentence> = {};

  readonly sentence = $derived(this.card && this.of(this.card));
  /** the card of this head on this sentence; and on any */
  readonly own = $derived(this.card && this.cardOf(this.head, this.card.sentence));
  readonly elsewhere = $derived(this.model?.cards.find((card) => card.head === this.head) ?? null);

  private readonly after = $derived(this.own?.after ? numbers(this.own.after.weights) : null);

  /** A weight of the head in front; without the earlier head that it depends on, where that is asked for. */
  weight(query: number, key: number): number {
    return this.cut && this.after ? inTriangle(this.after, query, key) : this.sentence!.weight(this.head, query, key);
  }

  async load(address: string): Promise<void> {
    await this.guarded(async () => {
      const model = await askJson<Recording>("real-heads");
      this.sentences = Object.fromEntries(model.sentences.map((each) => [each.key, new Sentence(each)]));
      this.model = model;
      this.restore(address);
    });
  }

  of(card: Card): Sentence {
    return this.sentences[card.sentence];
  }

  /** The followed next words, as a sentence of the page has them. */
  readonly words = $derived.by(() => {
    if (!this.card) return "";
    const [first, last] = this.card.shown.map((word) => `**${visible(this.sentence!.recorded.next[word])}**`);
    return last ? said.and(first, last) : first;
  });
  /** What happens to them without the head. */
  readonly effect = $derived.by(() => {
    if (!this.card) return "";
    const [before, after] = [null, this.head].map((head) => this.sentence!.next(this.card!.shown, head));
    const way =
      Math.abs(after - before) < Math.max(0.012, before * 0.04) ? "hardly" : after < before ? "falls" : "rises";
    return said[way](this.words, this.card.shown.length > 1 ? "" : "s", share(before), share(after));
  });
  /** Where the selected word attends to: at most three words. */
  readonly attends = $derived.by(() => {
    if (!this.sentence) return "";
    const word = (at: number) => visible(this.sentence!.recorded.tokens[at]);
    const keys = this.sentence
      .strongest(this.head, this.row, 0.08)
      .slice(0, 3)
      .map((key) => {
        const name = key === 0 ? said.firstWord : key === this.row ? `*${word(key)}*` : `**${word(key)}**`;
        return `${name} (${share(this.sentence!.weight(this.head, this.row, key))})`;
      });
    const last = keys.pop();
    if (!last) return said.nowhere(word(this.row));
    return said.attends(word(this.row), keys.length ? said.and(keys.join(", "), last) : last);
  });

  name(head: number): string {
    return `${Math.floor(head / this.model!.heads)}.${head % this.model!.heads}`;
  }

  cardOf(head: number, sentence: string): Card | null {
    return this.model!.cards.find((card) => card.head === head && card.sentence === sentence) ?? null;
  }

  show(card: Card | null, head = card?.head ?? 0): void {
    [this.card, this.head, this.off, this.cut] = [card, head, false, false];
    if (card) this.row = head === card.head ? card.query : Math.min(card.query, this.of(card).length - 1);
  }

  /** Another head of the same sentence; its own card if it has one there. */
  pick(head: number): void {
    const own = this.cardOf(head, this.card!.sentence);
    if (own) this.show(own);
    else [this.head, this.off, this.cut] = [head, false, false];
  }

  /** The same head on another sentence. */
  read(key: string): void {
    const { cards } = this.model!;
    const card = this.cardOf(this.head, key) ?? cards.find((each) => each.sentence === key)!;
    this.show(card, this.head);
    if (card.head !== this.head) this.row = this.of(card).length - 1;
  }

  step(by: number): void {
    const { cards } = this.model!;
    this.show(cards[(cards.indexOf(this.card!) + by + cards.length) % cards.length]);
  }

  restore(hash: string): void {
    const fields = fieldsAt(hash);
    const { cards, layers, heads } = this.model!;
    const card = cards.find(({ id }) => id === fields.get("card")) ?? null;
    const [layer, head] = (fields.get("head") ?? "").split(".").map((part) => whole(part));
    this.show(card);
    if (card && layer !== null && head !== null && layer < layers && head < heads) this.pick(layer * heads + head);
    this.row = whole(fields.get("token"), 0, (this.sentence?.length ?? 1) - 1) ?? this.row;
    this.off = fields.has("off");
  }

  address(): string {
    if (!this.card) return "#real";
    const { id, head, query } = this.card;
    return addressOf("real", {
      card: id,
      head: this.head === head ? null : this.name(this.head),
      token: this.row === query ? null : this.row,
      off: this.off ? 1 : null,
    });
  }
}
