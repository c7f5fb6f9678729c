import { describe, expect, it } from "vitest";
import { frameSplitter } from "../../src/source/event-stream";
import { unpack } from "../../src/wire";
import { pack } from "../pack";

function framed(values: unknown): Uint8Array {
  const body = new Uint8Array(pack(values, { row: { data: Float32Array.of(1, 2), shape: [2] } }));
  const whole = new Uint8Array(4 + body.length);
  new DataView(whole.buffer).setUint32(0, body.length, true);
  whole.set(body, 4);
  return whole;
}

describe("frames", () => {
  it("come out whole, however the bytes arrive", () => {
    const [one, two] = [framed({ event: "step", step: 1 }), framed({ event: "done" })];
    const all = new Uint8Array([...one, ...two]);
    for (const size of [1, 3, 7, one.length, all.length]) {
      const cut = frameSplitter();
      const found: unknown[] = [];
      for (let at = 0; at < all.length; at += size)
        for (const bytes of cut(all.slice(at, at + size))) found.push(unpack(bytes).values);
      expect(found).toEqual([{ event: "step", step: 1 }, { event: "done" }]);
    }
  });
});
