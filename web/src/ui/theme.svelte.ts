// Light or dark theme, and the colours that canvases read from it.
import { palette, type Palette } from "../draw/colour";
import { recall, remember } from "../storage";

const KEY = "headscope.theme";
type Theme = "light" | "dark";

class Themes {
  name = $state<Theme>("light");
  colours = $state.raw<Palette>(null!);

  start(root: HTMLElement = document.documentElement): void {
    const asked = new URLSearchParams(location.search).get("theme") ?? recall(KEY);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.set(asked === "dark" || asked === "light" ? asked : dark.matches ? "dark" : "light", root);
    dark.addEventListener("change", () => recall(KEY) ?? this.set(dark.matches ? "dark" : "light", root));
  }

  toggle(): void {
    this.set(this.name === "dark" ? "light" : "dark", document.documentElement);
    remember(KEY, this.name);
  }

  private set(name: Theme, root: HTMLElement): void {
    this.name = root.dataset.theme = name;
    const style = getComputedStyle(root);
    this.colours = palette((token) => style.getPropertyValue(token));
  }
}

export const theme = new Themes();
