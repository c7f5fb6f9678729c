// The pages and their addresses: "#four-heads?…" shows the page "four-heads". The first is shown where none is named.
import type { Component } from "svelte";
import MicroscopePage from "./microscope/MicroscopePage.svelte";
import type { Source } from "./source/source";

export interface Page {
  key: string;
  name: string;
  component: Component<{ source: Source; ownsAddress: boolean }>;
}

export const PAGES: Page[] = [{ key: "microscope", name: "Microscope", component: MicroscopePage }];

export function pageAt(hash: string): Page {
  const key = hash.replace(/^#/, "").split("?")[0];
  return PAGES.find((page) => page.key === key) ?? PAGES[0];
}
