// Attention over a picture: patches within a line of weights, zoom, arrow keys, and a model's first place.
import { describe, expect, it } from "vitest";
import {
  corner,
  moved,
  neighbourPatch,
  patchWeights,
  pinched,
  veil,
  WHOLE_PICTURE,
  zoomed,
} from "../../src/microscope/media/overlay";
import { takesText, withFile } from "../../src/microscope/media/media-file";
import { receivedIn } from "../../src/source/decode";
import type { ModelCard, Tile } from "../../src/source/source";

const GRID = { first: 1, rows: 2, columns: 3 };
const model = (reads: ModelCard["reads"], queries: "text" | "written" = "text") =>
  ({ reads, sites: [{ queries }] }) as unknown as ModelCard;

describe("the overlay", () => {
  it("takes the patches out of a line, and what is set aside counts as nothing", () => {
    const line = [0.3, 0.1, 0.2, 0.3, 0.05, 0.03, 0.02];
    expect([...patchWeights(GRID, line, null)]).toEqual([...Float32Array.from(line.slice(1))]);
    expect(patchWeights(GRID, line, 3)[2]).toBe(0);
  });

  it("shows the strongest patch clear", () => {
    expect(veil(0.2, 0.2)).toBe(0);
    expect(veil(0, 0.2)).toBeCloseTo(0.9);
    expect(veil(0.05, 0.2)).toBeCloseTo(0.45);
  });

  it("grows under two fingers, and what lay under each stays there", () => {
    const zoom = { x: 0.5, y: 0.5, times: 2 };
    const before = [
      { across: 0.4, down: 0.5 },
      { across: 0.6, down: 0.5 },
    ];
    const after = [
      { across: 0.35, down: 0.6 },
      { across: 0.65, down: 0.6 },
    ];
    const found = pinched(zoom, before, after);
    expect(found.times).toBeCloseTo(3);
    const place = (at: typeof zoom, point: (typeof before)[0]) => [
      corner(at).left + point.across / at.times,
      corner(at).top + point.down / at.times,
    ];
    before.forEach((point, finger) => {
      place(found, after[finger]).forEach((value, axis) => expect(value).toBeCloseTo(place(zoom, point)[axis]));
    });
  });

  it("walks from patch to patch and stops at the edges", () => {
    expect(neighbourPatch(GRID, 1, "ArrowRight")).toBe(2);
    expect(neighbourPatch(GRID, 1, "ArrowDown")).toBe(4);
    expect(neighbourPatch(GRID, 6, "ArrowDown")).toBe(6);
    expect(neighbourPatch(GRID, 0, "ArrowDown")).toBe(1); // from the class token into the picture
    expect(neighbourPatch(GRID, 1, "Enter")).toBe(null);
  });

  it("zooms about a point that stays, and never leaves the picture", () => {
    const near = zoomed(WHOLE_PICTURE, 2, 0.25, 0.75);
    const { left, top } = corner(near);
    expect([left + 0.25 / near.times, top + 0.75 / near.times]).toEqual([0.25, 0.75]);
    expect(corner(moved(near, -9, 9))).toEqual({ left: 0, top: 0.5 });
    expect(zoomed(near, 0.1, 0.5, 0.5)).toEqual(WHOLE_PICTURE);
  });
});

describe("a file and a text", () => {
  const file = { name: "cat.png", data: "AAAA", text: null };
  it("go together where the model takes both", () => {
    expect(withFile({ text: "a cat" }, file, model(["text", "pictures"]))).toEqual({
      media: { ...file, text: "a cat" },
    });
    expect(withFile({ text: "a cat" }, file, model(["pictures"]))).toEqual({ media: file });
    expect(withFile({ text: " " }, file, model(["sound"], "written"))).toEqual({ media: file });
    expect(withFile({ text: "a cat" }, null, model(["text"]))).toEqual({ text: "a cat" });
    expect(withFile({ look: "x" }, file, model(["text"]))).toEqual({ look: "x" });
  });
  it("a decoder that hears takes a text", () => expect(takesText(model(["sound"], "written"))).toBe(true));
});

it("names the key that receives most of a whole pattern", () => {
  const tile = { look: "x", head: "0.0", width: 3, height: 2, weights: Float32Array.of(0.5, 0.25, 0.25, 0, 0, 1) };
  const found = receivedIn(tile as unknown as Tile);
  expect(found.sink).toBe(2);
  expect([...found.received]).toEqual([0.25, 0.125, 0.625]);
});
