import { expect, test } from "vitest";
import type { Evidence } from "../src/tour/evidence";
import { TOUR } from "../src/tour/stops";

const evidence = { head: "5.1", lost: { token: "river", before: 0.4, after: 0.01 } } as unknown as Evidence;
const done = (query: string, acted: boolean) => TOUR[5].done(new URLSearchParams(query), acted, evidence);

test("the last stop is done by either control that takes the head away, and by nothing else", () => {
  expect(done("head=5.1&compare=0&off=5.1", true)).toBe(true);
  expect(done("head=5.1", true)).toBe(true); // the switch "without 5.1": comparing is what an address leaves out
  expect(done("head=5.1&compare=0", true)).toBe(false);
  expect(done("head=5.2", true)).toBe(false);
  expect(done("head=5.1", false)).toBe(false); // as it opens
});
