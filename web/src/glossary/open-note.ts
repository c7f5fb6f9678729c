// Open a term's note below the paragraph in which the term stands; one note at a time on the whole page.
import { mount, unmount } from "svelte";
import TermNote from "./TermNote.svelte";
import type { TermKey } from "./find-terms";

interface OpenNote {
  close: () => void;
}

const BLOCKS = "p, li, dd, td, th, h1, h2, h3, h4, figcaption, div, section";
const INSIDE = "li, dd, td, th"; // what may not be followed by a note, but may hold one
let current: OpenNote | null = null;
let count = 0;

/** The element below which a note does not tear a row apart: no part of a flex box, a grid or a table. */
export function paragraphOf(term: Element): HTMLElement {
  let found = term.closest<HTMLElement>(BLOCKS)!;
  while (found.parentElement && /flex|grid/.test(getComputedStyle(found.parentElement).display))
    found = found.parentElement;
  return found;
}

/** Open the note, and close any other; `closed` is called when it goes. Returns its id and a way to close it. */
export function openNote(term: Element, word: TermKey, closed: () => void): { id: string; close: () => void } {
  current?.close();
  const note = document.createElement("div");
  note.id = `term-${++count}`;
  note.className = "term-note";
  const paragraph = paragraphOf(term);
  if (paragraph.matches(INSIDE)) paragraph.append(note);
  else paragraph.after(note);
  const opened: OpenNote = {
    close: () => {
      if (current === opened) current = null;
      document.removeEventListener("keydown", escape);
      void unmount(shown);
      note.remove();
      closed();
    },
  };
  const escape = (event: KeyboardEvent) => {
    if (event.key === "Escape") opened.close();
  };
  const shown = mount(TermNote, { target: note, props: { word, close: opened.close } });
  document.addEventListener("keydown", escape);
  current = opened;
  note.scrollIntoView({ block: "nearest" });
  return { id: note.id, close: opened.close };
}
