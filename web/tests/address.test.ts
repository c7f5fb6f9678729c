import { expect, test } from "vitest";
import { BEGINNING, LONGEST_TEXT_IN_ADDRESS, read, write, type State } from "../src/state/address";

const FULL: State = {
  text: "When? “Now” & then\n100%",
  look: null,
  head: "decoder.5.cross.1",
  token: 3,
  view: "arcs",
  show: "induction",
  order: "ranked",
  aside: true,
  compare: false,
  how: "mean",
  off: ["5.1", "5.5"],
};

test("an address gives back the state it was written from", () => {
  expect(read(write(FULL))).toEqual(FULL);
});

test("a page without an address is at its beginning", () => {
  for (const address of ["", "#", "#microscope", "#microscope?"]) expect(read(address)).toEqual(BEGINNING);
});

test("a long text travels by the name of its look", () => {
  const long = { ...FULL, text: "x".repeat(LONGEST_TEXT_IN_ADDRESS + 1), look: "0123abcd" };
  expect(read(write(long))).toEqual({ ...long, text: null });
});

test("nonsense in an address falls back to the beginning", () => {
  expect(read("#microscope?view=cube&order=up&token=-3&how=magic")).toEqual(BEGINNING);
});
