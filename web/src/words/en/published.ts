// A published website: what it cannot do without Python, what is in it, and how to cite it.
export default {
  needsPython: (command: string) =>
    `This needs headscope on your machine. Install it with: pip install headscope, then run: ${command}`,
  needs: (command: string) => `This needs headscope on your machine: ${command}`,
  onYourMachine: "This needs headscope on your machine:",
  computedWhen: "by headscope, when this website was made",
  storedAnswer: "Computed by headscope when this website was made, for this example.",
  docs: "Documentation",
  about: "About this website",
  made: (version: string) =>
    `Made with headscope ${version}. The model runs in your browser; nothing you type leaves it.`,
  model: (title: string, licence: string) => `${title}; licence of its weights: ${licence}`,
  source: (source: string) => `Source: ${source}`,
  checked: (verified: string) => `Checked when this website was made: ${verified}.`,
  notHere: (title: string, why: string) => `${title} itself is not on this website: ${why}. Saved looks are below.`,
  looks: "Saved looks",
  install: (command: string) => `To run the same on your machine: ${command}`,
  citationFile: "How to cite headscope (CITATION.cff)",
  fetching: (done: number, total: number, seconds: number | null) =>
    `fetching the model: ${done} of ${total} MB${seconds === null ? "" : `, about ${seconds} s left`}`,
  starting: "starting the model",
  fetches: (megabytes: number) => `Your browser asks to save data. This needs the model: ${megabytes} MB. Fetch it?`,
  notFetched: "The model was not fetched, because your browser asks to save data. Reload to be asked again.",
  offline: "This part of the website could not be fetched. Check your network connection, then reload.",
  missing: (file: string, status: number) => `${file} is missing from this website (${status}).`,
};
