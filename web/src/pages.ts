// The pages and their addresses: "#four-heads?…" shows the page "four-heads". Each is fetched when it is first shown.
import type { Component } from "svelte";
import type { Source } from "./source/source";
import type { words } from "./words/words";

export interface PageProps {
  source: Source;
  ownsAddress: boolean;
  /** the address whose state is shown, where it is not the browser's */
  at?: string;
}

export type PageKey = keyof (typeof words)["frame"]["pages"];

export interface Page {
  key: PageKey;
  load: () => Promise<{ default: Component<PageProps> }>;
  /** it has a bar of its own kind, without the other pages' names */
  guided?: boolean;
  /** it has no bar: it stands in another page */
  bare?: boolean;
}

export const PAGES: Page[] = [
  { key: "start", load: () => import("./start/StartPage.svelte"), guided: true },
  { key: "tour", load: () => import("./tour/TourPage.svelte"), guided: true },
  { key: "fork", load: () => import("./tour/TourPage.svelte"), guided: true, bare: true },
  { key: "learn", load: () => import("./learn/LearnPage.svelte") },
  { key: "microscope", load: () => import("./microscope/MicroscopePage.svelte") },
  { key: "four-heads", load: () => import("./four-heads/FourHeadsPage.svelte") },
  { key: "by-hand", load: () => import("./by-hand/ByHandPage.svelte") },
  { key: "one-or-many", load: () => import("./one-or-many/OneOrManyPage.svelte") },
  { key: "film", load: () => import("./film/FilmPage.svelte") },
  { key: "real", load: () => import("./real-heads/RealHeadsPage.svelte") },
  { key: "cards", load: () => import("./cards/CardsPage.svelte") },
  { key: "census", load: () => import("./census/CensusPage.svelte") },
  { key: "sources", load: () => import("./sources/SourcesPage.svelte") },
  { key: "class", load: () => import("./classroom/ClassPage.svelte") },
  { key: "joined", load: () => import("./classroom/JoinedPage.svelte"), guided: true },
  { key: "puzzles", load: () => import("./puzzles/PuzzlesPage.svelte") },
  { key: "worksheet", load: () => import("./classroom/WorksheetPage.svelte") },
];

/** The pages that the bar does not name: one comes to them from another. */
const UNLISTED: PageKey[] = ["tour", "fork", "class", "joined", "worksheet", "puzzles"];
export const LISTED: PageKey[] = PAGES.map((page) => page.key).filter((key) => !UNLISTED.includes(key));

export function pageAt(hash: string): Page {
  const key = hash.replace(/^#/, "").split(/[?/]/)[0];
  return PAGES.find((page) => page.key === key) ?? PAGES[0];
}
