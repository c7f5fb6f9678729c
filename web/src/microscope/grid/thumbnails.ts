// The patterns that a look came with, as the grid paints them.
import type { Thumbnails } from "../../draw/head-grid";
import type { Microscope } from "../state/microscope.svelte";

export function thumbnailsOf(scope: Microscope, brightness: (head: number) => number = () => 1): Thumbnails {
  const { thumbnails: bytes, side } = scope.look!;
  const causal = scope.heads.map((head) => head.site.causal);
  return { bytes, side, causal, brightness, aside: scope.settings.aside };
}
