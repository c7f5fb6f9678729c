import { expect, it } from "vitest";
import { lines } from "../../src/source/event-stream";

it("lines come out whole, however the text arrives", async () => {
  const all = '{"event":"begun"}\n{"event":"outcome"}\n';
  for (const size of [1, 3, 7, all.length]) {
    const pieces = Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.slice(at * size, (at + 1) * size)); // prettier-ignore
    const stream = new ReadableStream<string>({
      start: (told) => (pieces.forEach((piece) => told.enqueue(piece)), told.close()),
    });
    const found: string[] = [];
    for await (const line of lines(stream.getReader())) found.push(line);
    expect(found).toEqual(['{"event":"begun"}', '{"event":"outcome"}']);
  }
});
