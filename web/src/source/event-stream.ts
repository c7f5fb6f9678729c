// Read a stream of JSON, a line per event: training runs as they happen.
import { askServer } from "./server";
import { Problem } from "./problem";

/** Whole lines of text that arrives in any pieces. */
export async function* lines(pieces: ReadableStreamDefaultReader<string>): AsyncGenerator<string> {
  for (let rest = ""; ;) {
    const { done, value } = await pieces.read();
    if (done) return;
    const all = (rest + value).split("\n");
    rest = all.pop()!;
    yield* all;
  }
}

/** What the program tells while it works; an error in the middle is thrown as the sentence it is. */
export async function* events<Card extends { event: string }>(
  path: string,
  body: unknown,
  signal?: AbortSignal,
): AsyncGenerator<Card> {
  const response = await askServer(path, body, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for await (const line of lines(reader)) {
      const card = JSON.parse(line) as Card | { event: "problem"; kind: string; message: string };
      if (card.event === "problem" && "message" in card) throw new Problem(card.kind, card.message);
      yield card as Card;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
