// Parse the lessons' Markdown, and highlight their Python.

export type Span = { kind: "text" | "strong" | "em" | "code" | "sub"; text: string };
export type Block = { kind: "paragraph"; spans: Span[] } | { kind: "list"; items: Span[][] };

/** Paragraphs and lists, one after the other. */
export function blocks(text: string): Block[] {
  return text
    .split(/\n\s*\n/)
    .map((piece) => piece.trim())
    .filter(Boolean)
    .map((piece): Block => {
      if (!/^[-*] /.test(piece)) return { kind: "paragraph", spans: spans(piece) };
      return { kind: "list", items: piece.split(/\n(?=[-*] )/).map((item) => spans(item.replace(/^[-*] /, ""))) };
    });
}

/** **strong**, *emphasis*, `code`, and the index of W_Q, W_K, W_V, W_O and d_head. */
export function spans(text: string): Span[] {
  const plain = text.replace(/\s*\n\s*/g, " ");
  const found: Span[] = [];
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*|(?<=\b[Ww])_([QKVO])\b/g;
  let from = 0;
  for (const match of plain.matchAll(pattern)) {
    if (match.index > from) found.push({ kind: "text", text: plain.slice(from, match.index) });
    const [, code, strong, em, sub] = match;
    if (code !== undefined) found.push({ kind: "code", text: code });
    else if (strong !== undefined) found.push({ kind: "strong", text: strong });
    else if (em !== undefined) found.push({ kind: "em", text: em });
    else found.push({ kind: "sub", text: sub });
    from = match.index + match[0].length;
  }
  if (from < plain.length) found.push({ kind: "text", text: plain.slice(from) });
  return found;
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
