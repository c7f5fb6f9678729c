import { expect, test } from "vitest";
import {
  INITIAL,
  LONGEST_TEXT_IN_ADDRESS,
  readAddress,
  writeAddress,
  type State,
} from "../../src/microscope/state/address";

const FULL: State = {
  model: "tiny",
  text: "When? “Now” & then\n100%",
  look: null,
  head: "decoder.5.cross.1",
  token: 3,
  view: "arcs",
  measure: "value",
  facing: "read",
  zoom: { row: 3.5, column: 0, span: 24 },
  show: "induction",
  order: "ranked",
  aside: true,
  compare: false,
  how: "mean",
  off: ["5.1", "5.5"],
  knockOuts: [
    { head: "decoder.5.cross.1", query: 3, key: 0 },
    { head: "5.1", query: 14, key: 7 },
  ],
  lens: true,
  patch: "resid_pre",
  toward: 17,
  minus: 4,
  explain: {
    arrow: { query: 3, key: 1 },
    against: "others",
    pin: { side: "k", name: "mlp 3" },
    group: true,
    tracing: true,
    floor: 0.05,
    part: "5.6",
    path: { writer: "decoder.4.3", reader: "5.6", into: "k", key: 7 },
  },
  other: { model: null, text: "and another", look: null, token: 2 },
};

test("an address gives back the state it was written from", () => {
  expect(readAddress(writeAddress(FULL))).toEqual(FULL);
});

test("a page without an address is at its beginning", () => {
  for (const address of ["", "#", "#microscope", "#microscope?"]) expect(readAddress(address)).toEqual(INITIAL);
});

test("a long text travels by the name of its look", () => {
  const long = { ...FULL, text: "x".repeat(LONGEST_TEXT_IN_ADDRESS + 1), look: "0123abcd" };
  expect(readAddress(writeAddress(long))).toEqual({ ...long, text: null });
});

test("nonsense in an address falls back to the beginning", () => {
  expect(
    readAddress(
      "#microscope?view=cube&order=up&token=-3&how=magic&cut=5.1:x:2,7" +
        "&t=hot&k=3&zoom=1,2&toward=a&minus=-1&measure=mass",
    ),
  ).toEqual(INITIAL);
});
