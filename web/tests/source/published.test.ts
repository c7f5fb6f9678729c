import { describe, expect, it } from "vitest";
import { Tokens } from "../../src/source/published/tokenizer";
import type { Parts } from "../../src/source/recompute-weights";
import type { SiteCard } from "../../src/source/source";
import { answerable, cellsOf, matches, measureSite } from "../../src/source/published/head-scores";
import { effectOf, guessesOf, likeliest, softmax } from "../../src/source/published/next-token";
import { markOf, type StoredQuestion } from "../../src/source/published/stored-answers";
import { quoted } from "../../src/source/published/source";
import { half, rowOf } from "../../src/source/published/weights-file";

const close = (found: ArrayLike<number>, wanted: number[]) =>
  wanted.forEach((each, at) => expect(found[at]).toBeCloseTo(each, 6));

describe("a command about a text", () => {
  it("takes the text as one argument", () => {
    expect(quoted("It isn't far.")).toBe('"It isn\'t far."');
    expect(quoted('He said "no", it isn\'t $5')).toBe("'He said \"no\", it isn'\\''t $5'");
  });
});

describe("the file of weights", () => {
  it("reads half precision: normal, small, negative and infinite numbers", () => {
    expect([0x3c00, 0xc000, 0x0001, 0x8400, 0x7c00].map(half)).toEqual([1, -2, 2 ** -24, -(2 ** -14), Infinity]);
    expect(half(0x7e00)).toBeNaN();
  });

  it("gives a row of a matrix, also where it lies transposed", () => {
    const file = Float32Array.from([0, 1, 2, 3, 4, 5]).buffer;
    const table = { offset: 0, shape: [2, 3], dtype: "float32" as const, transposed: false };
    expect([...rowOf(file, table, 1)]).toEqual([3, 4, 5]);
    expect([...rowOf(file, { ...table, transposed: true }, 1)]).toEqual([1, 4]);
  });
});

describe("scores of heads", () => {
  const site = { name: "0", causal: true } as SiteCard;
  const ids = [7, 8, 7];
  const parts: Parts = {
    scale: 1,
    softcap: null,
    q: Float32Array.from([0, 0, 0]), // every score is 0, so each row is uniform over the keys it sees
    k: Float32Array.from([1, 2, 3]),
    logsumexp: new Float32Array(0),
    runs: Int32Array.from([0, 1, 0, 2, 0, 3]),
    heads: 1,
    kvHeads: 1,
    queries: 3,
    keys: 3,
    width: 1,
  };

  it("are means over the rows that can answer", () => {
    const { scores, logsumexp, thumbnails } = measureSite(parts, site, ids, 3);
    close(logsumexp, [0, Math.log(2), Math.log(3)]);
    expect(scores.previous[0]).toBeCloseTo((1 / 2 + 1 / 3) / 2, 6);
    expect(scores.itself[0]).toBeCloseTo((1 / 2 + 1 / 3) / 2, 6);
    expect(scores.duplicate[0]).toBeCloseTo(1 / 3, 6); // the last row alone has an earlier copy
    expect(scores.induction[0]).toBeCloseTo(1 / 3, 6);
    expect(scores.entropy[0]).toBeCloseTo((Math.log(2) + Math.log(3)) / 2, 6);
    expect(scores.distance[0]).toBeCloseTo((0.5 + 1) / 2, 6);
    expect(thumbnails[0]).toBe(255);
    expect(thumbnails[2]).toBe(0);
  });

  it("count the rows that can answer, and find copies and what followed them", () => {
    expect(matches(ids, true)).toEqual({ duplicate: [[], [], [0]], induction: [[], [], [1]] });
    expect(answerable(ids, true)).toMatchObject({ previous: 2, itself: 2, first: 2, duplicate: 1, induction: 1 });
    expect(answerable([1, 2], false).itself).toBe(2);
  });

  it("count the rows that see an answer within a window", () => {
    const long = [5, 9, 5, 7, 9, 5, 5, 7, 11];
    expect(answerable(long, true, 3)).toMatchObject({ previous: 8, itself: 8, first: 2, duplicate: 2 });
    expect(matches(long, true, 3).duplicate[6]).toEqual([5]);
    expect(answerable(long, true, 1)).toMatchObject({ previous: 0, itself: 8, first: 0, duplicate: 0, induction: 0 });
    expect(answerable(long, false, 3).first).toBe(3);
    const windowed = measureSite(
      { ...parts, runs: Int32Array.from([0, 1, 0, 2, 1, 3]) },
      { ...site, window: 2 },
      ids,
      3,
    );
    expect(windowed.scores.first[0]).toBeCloseTo(1 / 2, 6); // the last row does not see the first token
    expect(windowed.scores.duplicate[0]).toBeNaN();
  });

  it("put each token into the cells that adaptive pooling shares it with", () => {
    expect([0, 1, 2].map((at) => cellsOf(at, 3, 2))).toEqual([[0], [0, 1], [1]]);
    expect([0, 1, 2].map((at) => cellsOf(at, 3, 3))).toEqual([[0], [1], [2]]);
  });
});

describe("the next token", () => {
  const logits = Float32Array.from([0, 2, 1, -1]);

  it("is guessed best first", () => {
    expect(likeliest(logits, 3)).toEqual([1, 2, 0]);
    const [first] = guessesOf(logits, 1, (id) => `t${id}`);
    expect(first).toMatchObject({ id: 1, text: "t1" });
    expect(first.probability).toBeCloseTo(softmax(logits)[1], 9);
  });

  it("differs from itself by nothing, and from another by its KL divergence", () => {
    expect(effectOf(logits, logits, guessesOf(logits, 2, String)).kl).toBe(0);
    const { kl } = effectOf(Float32Array.from([0, 0]), Float32Array.from([0, Math.log(3)]), []);
    expect(kl).toBeCloseTo(0.5 * Math.log(0.5 / 0.25) + 0.5 * Math.log(0.5 / 0.75), 6);
  });
});

describe("a lesson's questions", () => {
  const reply = (says: string, right = false) => ({ right, says, kind: "reason" });
  const question: StoredQuestion = {
    numeric: true,
    options: [
      { text: ".3", replies: [reply("yes", true), reply("yes", true), reply("yes", true)] },
      { text: "144", replies: [reply("hint"), reply("no"), reply("no")] },
    ],
    other: [reply("hint"), reply("hint"), reply("It is .3.")],
  };

  it("take a number however it is typed", () => {
    for (const answer of [".3", "0.3", "30 %", "3/10"])
      expect(markOf(question, { question: 1, answer, attempt: 1 }).right).toBe(true);
    expect(markOf(question, { question: 1, answer: "144", attempt: 2 }).says).toBe("no");
    expect(markOf(question, { question: 1, answer: "7", attempt: 9 }).says).toBe("It is .3.");
    expect(() => markOf(question, { question: 1, answer: "many", attempt: 1 })).toThrow("could not read");
  });
});

describe("tokens in the browser", () => {
  const words = (unk_token: string | null) => ({
    version: "1.0",
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: { type: "Whitespace" },
    post_processor: null,
    decoder: null,
    model: { type: "WordLevel", vocab: { "[UNK]": 0, the: 1, cat: 2 }, unk_token },
  });

  it("gives a word outside the vocabulary the unknown token", () => {
    expect(new Tokens(words("[UNK]"), {}, []).ids("the dog")).toEqual([1, 0]);
  });

  it("refuses such a word where the model has no unknown token", () => {
    expect(() => new Tokens(words(null), {}, []).ids("the dog")).toThrow("no token for");
  });
});
