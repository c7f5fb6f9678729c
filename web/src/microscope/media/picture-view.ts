// What is drawn over a picture: whose weights, on which grid of patches; the same on the page and in what is saved.
import type { PatchGrid } from "../../source/source";
import type { Microscope } from "../state/microscope.svelte";
import { patchWeights } from "./overlay";

export interface PictureView {
  read: boolean; // who reads the selected key, in place of what the selected query reads
  byWord: boolean; // the selected key is no patch: a word of cross-attention
  own: PatchGrid | undefined; // where the queries are patches
  grid: PatchGrid; // of the patches that have weights; of the queries where none have
  current: ArrayLike<number> | null; // the whole row or column
  weights: Float32Array; // of the patches, row by row; empty where the selected patch reads no patches
}

export function pictureView(scope: Microscope): PictureView {
  const { look, here, settings, streams, token } = scope;
  const grids = look!.media!.grids;
  const read = settings.facing === "read";
  const [own, keys] = [grids[streams[0]], grids[streams[1]]] as (PatchGrid | undefined)[];
  const drawn = read ? own : keys;
  const grid = drawn ?? own ?? Object.values(grids)[0];
  const line = read ? scope.column : scope.row;
  const fits = line && line.look === look!.look && line.head === here!.name && line.token === token;
  const current = fits ? line.weights : null;
  return {
    read,
    byWord: read && crossed(scope),
    own,
    grid,
    current,
    weights: drawn
      ? patchWeights(grid, current ?? [], settings.aside && !read ? scope.sink : null)
      : new Float32Array(),
  };
}

/** Whether keys are other positions than the queries: a token then is a key where it is asked who reads it. */
export function crossed(scope: Microscope): boolean {
  return scope.streams[0] !== scope.streams[1];
}

/** Keys that are words beside queries that are patches: each has a map of who reads it. */
export function wordsRead(scope: Microscope): boolean {
  const grids = scope.look?.media?.grids;
  return !!grids && crossed(scope) && scope.streams[0] in grids && !(scope.streams[1] in grids);
}
