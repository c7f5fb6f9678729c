// Parse the lessons' Markdown, and highlight their Python.

export type Span =
  | { kind: "text" | "strong" | "em" | "code" | "sub"; text: string }
  | { kind: "live"; text: string; name: string; form: string; within?: "strong" | "em" }
  | { kind: "link"; text: string; href: string };
export type Block =
  | { kind: "paragraph"; spans: Span[] }
  | { kind: "list"; items: Span[][] }
  | { kind: "figure"; figure: number }
  | { kind: "heading"; spans: Span[] };
/** A heading with what follows it; what stands before the first heading has none. */
export interface Step {
  heading: Span[] | null;
  words: Block[];
  figures: number[];
}

/** Paragraphs, lists, headings and the places of figures, one after the other. */
export function blocks(text: string): Block[] {
  return text
    .split(/\n\s*\n/)
    .map((piece) => piece.trim())
    .filter(Boolean)
    .flatMap((piece): Block[] => {
      const figure = /^\[\[figure (\d+)\]\]/.exec(piece);
      if (figure) return [{ kind: "figure", figure: Number(figure[1]) }];
      const heading = /^### (.+)(?:\n([\s\S]+))?$/.exec(piece);
      if (heading) return [{ kind: "heading", spans: spans(heading[1]) }, ...(heading[2] ? blocks(heading[2]) : [])];
      if (!/^[-*] /.test(piece)) return [{ kind: "paragraph", spans: spans(piece) }];
      return [{ kind: "list", items: piece.split(/\n(?=[-*] )/).map((item) => spans(item.replace(/^[-*] /, ""))) }];
    });
}

/** A text cut at its headings; the figures of a part stand beside or below its words. */
export function steps(text: string): Step[] {
  const found: Step[] = [];
  for (const block of blocks(text)) {
    if (block.kind === "heading") found.push({ heading: block.spans, words: [], figures: [] });
    else {
      if (!found.length) found.push({ heading: null, words: [], figures: [] });
      found.at(-1)!.words.push(block);
      if (block.kind === "figure") found.at(-1)!.figures.push(block.figure);
    }
  }
  return found;
}

const LIVE = /\{\{([^{}:=]+)(?::([^{}=]*))?=([^{}]*)\}\}/;
const LINK = /\[([^\]]+)\]\(((?:https:\/\/|#)[^\s)]+)\)/;
const CODE = /`([^`]+)`/;
const STRONG = /\*\*([^*]+)\*\*/;
const EM = /\*([^*\s](?:[^*]*[^*\s])?)\*/;
const SUB = /(?<=\b(?:[Ww]|head))_([QKVOh\d])\b/;
const PATTERN = new RegExp([LIVE, LINK, CODE, STRONG, EM, SUB].map((each) => each.source).join("|"), "g");

/** **strong**, *emphasis*, `code`, links, live numbers, and the index of W_Q, W_K, W_V and W_O. */
export function spans(text: string): Span[] {
  const plain = text.replace(/\s*\n\s*/g, " ");
  const found: Span[] = [];
  let from = 0;
  for (const match of plain.matchAll(PATTERN)) {
    if (match.index > from) found.push({ kind: "text", text: plain.slice(from, match.index) });
    const [, name, form, computed, link, href, code, strong, em, sub] = match;
    if (name !== undefined) found.push({ kind: "live", text: computed, name, form: form ?? "" });
    else if (link !== undefined) found.push({ kind: "link", text: link, href });
    else if (code !== undefined) found.push({ kind: "code", text: code });
    else if (strong !== undefined) found.push(...inner("strong", strong));
    else if (em !== undefined) found.push(...inner("em", em));
    else found.push({ kind: "sub", text: sub });
    from = match.index + match[0].length;
  }
  if (from < plain.length) found.push({ kind: "text", text: plain.slice(from) });
  return found;
}

/** A live number inside emphasis stays live. */
function inner(kind: "strong" | "em", text: string): Span[] {
  return spans(text).map((span): Span =>
    span.kind === "text" ? { kind, text: span.text } : span.kind === "live" ? { ...span, within: kind } : span,
  );
}

export type Ink = "plain" | "comment" | "string" | "word";

/** Python in three tints: comments, strings, and the words of the language. */
export function highlightPython(code: string): { ink: Ink; text: string }[] {
  const comment = /(#[^\n]*)/;
  const string = /([fr]?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')/;
  const word = /\b(import|from|for|in|if|else|def|return|with|lambda|as|and|or|not|True|False|None)\b/;
  const pattern = new RegExp([comment, string, word].map((part) => part.source).join("|"), "g");
  const found: { ink: Ink; text: string }[] = [];
  let at = 0;
  for (const match of code.matchAll(pattern)) {
    if (match.index > at) found.push({ ink: "plain", text: code.slice(at, match.index) });
    found.push({ ink: match[1] ? "comment" : match[2] ? "string" : "word", text: match[0] });
    at = match.index + match[0].length;
  }
  if (at < code.length) found.push({ ink: "plain", text: code.slice(at) });
  return found;
}
