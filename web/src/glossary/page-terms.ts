// The glossary's words on the page that is shown, and which of them are explained where they stand.
import { termsIn } from "./find-terms";
import type { TermKey } from "./find-terms";

/** The text of an element, piece by piece; what a note says, or a list of other pages, does not count. */
export function textOf(root: Element): string {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement?.closest(".term-note, style, script, nav") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
  );
  const pieces: string[] = [];
  while (walker.nextNode()) pieces.push(walker.currentNode.nodeValue ?? "");
  return pieces.join("\n");
}

/** Words of the glossary that stand on a page without a button that explains them. */
export function unexplained(main: Element): TermKey[] {
  const explained = new Set([...main.querySelectorAll<HTMLElement>("[data-term]")].map((term) => term.dataset.term));
  return termsIn(textOf(main)).filter((term) => !explained.has(term));
}
