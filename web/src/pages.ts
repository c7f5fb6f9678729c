// The pages and their addresses: "#four-heads?…" shows the page "four-heads"; without a name the first.
import type { Component } from "svelte";
import ByHandPage from "./by-hand/ByHandPage.svelte";
import FourHeadsPage from "./four-heads/FourHeadsPage.svelte";
import CardsPage from "./cards/CardsPage.svelte";
import CensusPage from "./census/CensusPage.svelte";
import FilmPage from "./film/FilmPage.svelte";
import LearnPage from "./learn/LearnPage.svelte";
import MicroscopePage from "./microscope/MicroscopePage.svelte";
import OneOrManyPage from "./one-or-many/OneOrManyPage.svelte";
import type { Source } from "./source/source";

export interface Page {
  key: string;
  name: string;
  component: Component<{ source: Source; ownsAddress: boolean }>;
}

export const PAGES: Page[] = [
  { key: "microscope", name: "Microscope", component: MicroscopePage },
  { key: "four-heads", name: "Four heads", component: FourHeadsPage },
  { key: "by-hand", name: "By hand", component: ByHandPage },
  { key: "one-or-many", name: "One or many", component: OneOrManyPage },
  { key: "film", name: "Film", component: FilmPage },
  { key: "cards", name: "Model cards", component: CardsPage },
  { key: "learn", name: "Learn", component: LearnPage },
  { key: "census", name: "Census", component: CensusPage },
];

export function pageAt(hash: string): Page {
  const key = hash.replace(/^#/, "").split("?")[0];
  return PAGES.find((page) => page.key === key) ?? PAGES[0];
}
