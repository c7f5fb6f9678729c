// Whether there is a program behind the page: a published site has none, and names the command that opens one.

let command: string | null = null;

/** Say that no program answers here; this command opens the same on the reader's machine. */
export function noPython(opens: string): void {
  command = opens;
}

/** The command that opens on the reader's machine what this page cannot do; null where headscope itself serves the page. */
export function pythonCommand(): string | null {
  return command;
}
