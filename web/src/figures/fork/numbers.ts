// The fork in numbers: the complete table of every step, and the sentence that stands for its picture.
import { fixed, percent, short, signed, visible } from "../../format";
import type { Evidence } from "../../tour/evidence";
import { words } from "../../words/words";
import type { Fork } from "./fork.svelte";
import { exact } from "./pen";

export type Table = { head: string[]; rows: string[][] }[];

const list = (row: number[]) => row.map(exact).join(" ");

export function tableOf(fork: Fork, step: number, real: Evidence | null): Table {
  const said = words.fork.table;
  const { names, values, drawn, asking, heads, width, sets } = fork;
  if (step === 1) {
    const [scores, query] = [fork.scores(asking), drawn.queries[asking]];
    const pair = (row: number[]) => `(${row.map((value) => fixed(value, 2)).join(", ")})`;
    const rows = names.map((name, at) => {
      const scaled = scores[at] / Math.SQRT2;
      const numbers = [scores[at], scaled, Math.exp(scaled)].map((value) => fixed(value, 2));
      return [name, pair(query), pair(drawn.keys[asking][at]), ...numbers, short(fork.printed(asking)[at])];
    });
    return [{ head: [said.word, "q", "k", "q · k", "÷ √2", said.power, said.share], rows }];
  }
  if (step < 5)
    return (step === 2 ? [0] : [0, 1]).map((head) => ({
      head: [said.word, said.share, said.value, "", "", "", said.product, "", "", ""],
      rows: [
        ...names.map((name, at) => {
          const share = drawn.shares[head][at];
          return [name, exact(share), ...values[at].map(exact), ...values[at].map((value) => exact(share * value))];
        }),
        [said.output(head + 1), "", "", "", "", "", ...fork.output(head).map(exact)],
      ],
    }));
  if (step === 5) {
    const outputs = [...fork.output(0), ...fork.output(1)];
    const rows = outputs.map((value, at) => [said.row(at + 1), exact(value), ...drawn.W[at].map(exact)]);
    const parts = [0, 1].map((head) => [said.from(head + 1), "", ...fork.part(head).map(exact)]);
    return [{ head: ["", "Concat", "W_O"], rows: [...rows, ...parts, ["y", "", ...fork.y.map(exact)]] }];
  }
  if (step === 6) {
    const each = width / heads;
    const kept = `2 × ${sets} × ${each} = ${2 * sets * each}`;
    const rows = [[heads, each, heads * each, sets, kept].map(String)];
    return [{ head: [said.heads, said.each, said.all, said.sets, said.kept], rows }];
  }
  if (!real) return [];
  const guesses = real.guesses.map((one) => [visible(one.text), `${percent(one.before)}%`, `${percent(one.after)}%`]);
  const parts = real.parts.map((part, at) => [real.layer[at], signed(part)]);
  return [
    { head: [said.token, said.on, said.off], rows: guesses },
    { head: ["", said.logit], rows: parts },
  ];
}

export function altOf(fork: Fork, step: number, real: Evidence | null): string {
  const said = words.fork.alt;
  const shares = (head: number) => fork.names.map((name, at) => `${name} ${short(fork.printed(head)[at])}`).join(", ");
  if (step === 0) return fork.drawn.shares.map((_, head) => said.shares(head + 1, shares(head))).join(" ");
  const [one, two] = [fork.output(0), fork.output(1)];
  if (step === 1) return said.ask(shares(fork.asking));
  if (step === 2) return said.average(shares(0), list(one));
  if (step === 3) return said.two(list(one), list(two));
  if (step === 4) return said.join(list([...one, ...two]));
  const [a, b] = [fork.part(0)[fork.column], fork.part(1)[fork.column]];
  if (step === 5) return said.mix(list(fork.y), fork.column + 1, exact(a), exact(b));
  if (step === 6) return said.many(fork.heads, fork.width / fork.heads, fork.sets);
  if (!real?.guesses.length) return words.fork.figure(step);
  const { text, before, after } = real.guesses[0];
  return said.off(real.head, fork.off, visible(text), percent(fork.off ? after : before));
}

/** What the page says at a step. */
export function voiceOf(fork: Fork, step: number, real: Evidence | null): string {
  const { voice } = words.fork;
  if (step === 5) return fork.split ? voice.split : fork.mixing === "own" ? voice.mixing : voice[fork.mixing];
  if (step === 6) return voice.many(fork.heads, fork.width / fork.heads, fork.sets);
  if (step < 5) return [voice.ask, voice.average, voice.two, voice.join][step - 1];
  if (!real) return voice.waiting;
  if (!real.guesses.length) return voice.none(real.head);
  const [{ text, before, after }] = real.guesses;
  const part = real.parts[real.layer.indexOf(real.head)];
  const own = part === undefined ? "" : signed(part);
  if (fork.off) return voice.off(visible(text), percent(before), percent(after), own);
  const { tokens, reads } = real;
  const most = reads.indexOf(Math.max(...(real.opens ? reads.slice(1) : reads))); // the first token is no word
  return voice.on(tokens.at(-1)!, tokens[most], real.head);
}
