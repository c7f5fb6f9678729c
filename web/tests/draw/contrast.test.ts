import { describe, expect, it } from "vitest";
import { contrast } from "../../src/draw/contrast";

describe("contrast", () => {
  it("measures black on white as 21", () => {
    expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21);
  });
});
