// Light or dark theme, and the colours that canvases read from it.
import { palette, type Palette } from "../draw/colour";

const KEY = "headscope.theme";
type Theme = "light" | "dark";

// a notebook's sandboxed frame has no storage; the choice then lasts as long as the page
function recalled(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(name: Theme): void {
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // nothing to keep it in
  }
}

class Themes {
  name = $state<Theme>("light");
  colours = $state.raw<Palette>(null!);

  start(root: HTMLElement = document.documentElement): void {
    const asked = new URLSearchParams(location.search).get("theme") ?? recalled();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.set(asked === "dark" || asked === "light" ? asked : dark.matches ? "dark" : "light", root);
    dark.addEventListener("change", () => recalled() ?? this.set(dark.matches ? "dark" : "light", root));
  }

  toggle(): void {
    this.set(this.name === "dark" ? "light" : "dark", document.documentElement);
    remember(this.name);
  }

  private set(name: Theme, root: HTMLElement): void {
    this.name = root.dataset.theme = name;
    const style = getComputedStyle(root);
    this.colours = palette((token) => style.getPropertyValue(token));
  }
}

export const theme = new Themes();
