// A published site: what it cannot do without Python, what is in it, and how to cite it.
export default {
  needsPython: (command: string) =>
    `This needs headscope on your machine. Install it with: pip install headscope, then run: ${command}`,
  needs: (command: string) => `This needs headscope on your machine: ${command}`,
  onYourMachine: "This needs headscope on your machine:",
  computedWhen: "by headscope, when this site was made",
  storedAnswer: "Computed by headscope when this site was made, for this example.",
  docs: "Documentation",
  about: "About this site",
  made: (version: string) =>
    `Made with headscope ${version}. The model runs in your browser; nothing you type leaves it.`,
  model: (title: string, licence: string) => `${title}; licence of its weights: ${licence}`,
  source: (source: string) => `Source: ${source}`,
  checked: (verified: string) => `Checked when this site was made: ${verified}.`,
  notHere: (title: string, why: string) => `${title} itself is not in this site: ${why}. Saved looks are below.`,
  looks: "Saved looks",
  install: (command: string) => `The same on your machine: ${command}`,
  citationFile: "How to cite headscope (CITATION.cff)",
  missing: (file: string, status: number) => `${file} is missing from this site (${status}).`,
};
