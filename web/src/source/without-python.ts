// Whether there is a program behind the page: a published site has none, and names the command that opens one.

let command: string | null = null;
let codeRuns = true;

/** Say that no program answers here; this command opens the same on the reader's machine. `runs`: code of lessons. */
export function noPython(opens: string, runs = true): void {
  [command, codeRuns] = [opens, runs];
}

/** Whether the code of lessons runs in this page: the files of its Python stand beside the page. */
export const runsCode = (): boolean => codeRuns;

/** The command that opens on the reader's machine what this page cannot do; null where headscope itself serves the page. */
export function pythonCommand(): string | null {
  return command;
}
