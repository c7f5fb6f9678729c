import { expect, test } from "vitest";
import { unpack } from "../src/wire";
import { pack } from "./pack";

test("what is packed comes back, aligned for typed arrays", () => {
  const arrays = {
    bytes: { data: Uint8Array.of(1, 2, 3), shape: [3] },
    weights: { data: Float32Array.of(0.5, 0.25, 1, 0, 0.125, 2), shape: [2, 3] },
    wide: { data: Float64Array.of(Math.PI), shape: [1] },
  };
  const found = unpack(pack({ text: "naïve ↵ 🐎" }, arrays));
  expect(found.values).toEqual({ text: "naïve ↵ 🐎" });
  expect(found.arrays).toEqual(arrays);
  expect(found.arrays.wide.data.byteOffset % 8).toBe(0);
});

test("a container written by the Python side is read", () => {
  // pack({"look": "é"}, {"weights": np.array([[1, 0.5]], np.float32), "flags": np.array([7], np.uint8)})
  const written =
    "sAAAAAAAAAB7IndlaWdodHMiOnsiZHR5cGUiOiJGMzIiLCJzaGFwZSI6WzEsMl0sImRhdGFfb2Zmc2V0cyI6WzAsOF19LCJmbGFn" +
    "cyI6eyJkdHlwZSI6IlU4Iiwic2hhcGUiOlsxXSwiZGF0YV9vZmZzZXRzIjpbOCw5XX0sImpzb24iOnsiZHR5cGUiOiJVOCIsInNo" +
    "YXBlIjpbMTNdLCJkYXRhX29mZnNldHMiOls5LDIyXX19IAAAgD8AAAA/B3sibG9vayI6IsOpIn0=";
  const bytes = Uint8Array.from(atob(written), (letter) => letter.charCodeAt(0));
  const { values, arrays } = unpack(bytes.buffer);
  expect(values).toEqual({ look: "é" });
  expect([...arrays.weights.data]).toEqual([1, 0.5]);
  expect(arrays.weights.shape).toEqual([1, 2]);
  expect([...arrays.flags.data]).toEqual([7]);
});

test("other bytes are refused", () => {
  expect(() => unpack(new TextEncoder().encode("<html></html>").buffer)).toThrow("These 13 bytes are not a container.");
});
