// Labels of sites beside the grid of heads.
import { describe, expect, it } from "vitest";
import { labelRoom, siteLabels } from "../../src/microscope/state/site-labels";

describe("labels of sites", () => {
  it("leaves short names as they are", () => {
    expect(siteLabels(["0", "1"])).toEqual(["0", "1"]);
    expect(siteLabels(["dec.0", "dec.0.cross"].map((name) => name.slice(0, 10)))).toEqual(["dec.0", "dec.0.cros"]);
  });

  it("leaves out what every path has, and the middle of what is still long", () => {
    const paths = ["down_blocks.0.attentions.1.attn1", "up_blocks.0.attentions.1.attn1", "mid.0.attentions.1.attn1"];
    expect(siteLabels(paths)).toEqual(["down_blocks.0.1", "up_blocks.0.1", "mid.0.1"]);
    expect(siteLabels(["transformer.layers.0.self_attention", "transformer.layers.0.cross_attention"])).toEqual([
      "0.sel…attention",
      "0.cro…attention",
    ]);
  });

  it("makes room for the longest", () => {
    expect(labelRoom(["0", "12345"])).toBe(37);
  });
});
