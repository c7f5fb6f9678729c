import { expect, test } from "vitest";
import { requester, notebookSource } from "../../src/source/notebook";
import { Problem } from "../../src/source/problem";

function host(answer: (question: { id: number; ask: string; body: unknown }) => object) {
  const { port1, port2 } = new MessageChannel();
  port2.onmessage = ({ data }) => port2.postMessage({ id: data.id, ...answer(data) });
  return { ask: requester(port1), close: () => (port1.close(), port2.close()) };
}

test("an answer reaches the one who asked, and a problem is a sentence", async () => {
  const { ask, close } = host(({ ask, body }) =>
    ask === "predict" ? { value: { asked: body } } : { problem: { kind: "InputError", message: "no such head" } },
  );
  const source = notebookSource("abc", ask);
  const wanted = {
    look: "abc",
    position: 3,
    off: [],
    cuts: [],
    how: "zero" as const,
    count: 6,
  };
  const [told, failed] = await Promise.all([source.predict(wanted), source.model().catch((error) => error)]);
  expect(told).toEqual({ asked: wanted });
  expect(failed).toBeInstanceOf(Problem);
  expect(failed.message).toBe("no such head");
  expect(source.first).toBe("abc");
  close();
});
