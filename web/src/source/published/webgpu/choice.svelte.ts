// What a published site's model runs on: the reader's choice, kept in this browser, and what came of it.
import { recall, remember } from "../../../storage";
import type { Tried } from "./on-webgpu";

const KEY = "headscope.runtime";
export type RuntimeName = "wasm" | "webgpu";

class RuntimeChoice {
  tried = $state<Tried | null>(null);
  readonly name: RuntimeName = recall(KEY) === "webgpu" ? "webgpu" : "wasm";

  /** The page starts again on the other one; its address restores what it shows. */
  choose(name: RuntimeName): void {
    remember(KEY, name);
    location.reload();
  }
}

export const runtime = new RuntimeChoice();
