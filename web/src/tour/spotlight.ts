// Dim everything in an element but one region and what belongs to it, and make it inert.

const DIM = "data-dimmed";
const STILL = "data-still"; // in sight, but not to be used

function clear(root: Element): void {
  for (const element of root.querySelectorAll(`[${DIM}], [${STILL}]`)) {
    element.removeAttribute(DIM);
    element.removeAttribute(STILL);
    element.removeAttribute("inert");
  }
}

function apply(element: Element, lit: string, shown: string): void {
  for (const child of element.children) {
    if (child.matches(lit)) continue;
    if (child.querySelector(shown ? `${lit}, ${shown}` : lit) && !(shown && child.matches(shown)))
      apply(child, lit, shown);
    else {
      child.setAttribute("inert", "");
      child.setAttribute(shown && child.matches(shown) ? STILL : DIM, "");
    }
  }
}

/** Keep the light on `lit` while the page below changes; returns how to end it. */
export function spotlight(root: HTMLElement, lit: string, shown = ""): () => void {
  const light = () => {
    watching.disconnect();
    clear(root);
    if (root.querySelector(lit)) apply(root, lit, shown);
    for (const region of root.querySelectorAll(lit)) {
      const closed = [region.closest("details"), ...region.querySelectorAll("details")];
      for (const details of closed) details?.setAttribute("open", "");
    }
    watching.observe(root, { childList: true, subtree: true });
  };
  const watching = new MutationObserver(light);
  light();
  return () => {
    watching.disconnect();
    clear(root);
  };
}
