// Links from each lesson to pages where it can be tried.
import type { Words } from "../words/words";

export interface TryItLink {
  href: string;
  says: keyof Words["learn"]["links"];
}

const repeated = encodeURIComponent(
  "the old lamp on the landing burned until morning and the old lamp on the landing burned",
);

export const TRY_IT_LINKS: Record<number, TryItLink[]> = {
  0: [
    { href: "#by-hand", says: "beginning" },
    { href: "#microscope", says: "realPattern" },
  ],
  1: [
    { href: "#one-or-many", says: "trainHeads" },
    { href: "#by-hand", says: "bringHome" },
  ],
  2: [{ href: "#four-heads", says: "split" }],
  3: [
    { href: "#by-hand", says: "dragOutput" },
    { href: "#microscope", says: "attribution" },
  ],
  4: [
    {
      href: `#microscope?text=${repeated}&show=induction&order=ranked`,
      says: "induction",
    },
    { href: "#film", says: "forming" },
  ],
  5: [
    { href: "#cards?card=gpt3-175b&heads=192", says: "twice" },
    { href: "#one-or-many", says: "sameWidth" },
  ],
  6: [{ href: "#microscope?view=arcs", says: "arcs" }],
  7: [
    { href: "#cards?card=llama-2-70b", says: "fewKv" },
    { href: "#cards?card=llama-2-13b", says: "manyKv" },
  ],
  8: [
    { href: "#film?step=0", says: "waits" },
    { href: "#cards?card=mixtral-8x7b", says: "experts" },
  ],
  9: [{ href: "#microscope", says: "distribution" }],
  10: [{ href: "#census", says: "census" }],
  11: [{ href: "#microscope", says: "oneToken" }],
  12: [
    { href: "#one-or-many", says: "sharedStart" },
    { href: "#film?step=0", says: "formingApart" },
  ],
  13: [{ href: "#microscope", says: "wholeModel" }],
  14: [{ href: `#microscope?text=${repeated}&show=induction&order=ranked`, says: "feeds" }],
  15: [{ href: "#four-heads", says: "split" }],
  16: [{ href: "#four-heads", says: "split" }],
  17: [{ href: "#microscope", says: "realPattern" }],
  18: [{ href: "#cards?card=llama-3.1-8b", says: "configs" }],
  19: [{ href: "#cards?card=llama-3.1-8b", says: "configs" }],
};
