// Strings of the census page's scan of a pasted text.
export default {
  title: "Scan your own text",
  says: "Paste a text. headscope measures every head with every question at every token. You get scan results like these, which only you can see.",
  label: "Text to scan",
  placeholder: "A few hundred words or more: the longer the text, the narrower the intervals",
  model: "Model",
  scan: "Scan this text",
  stop: "Stop",
  length: (now: string, most: string) => `${now} of ${most} characters`,
  tooLong: (over: string) => `${over} characters too many`,
  waiting: "waiting for other requests",
  reading: "reading the text",
  done: (tokens: string) => `scanned ${tokens} tokens`,
  far: (done: string, total: string) => `${done} of ${total} tokens`,
  stopped: "Stopped. Nothing was saved.",
  download: "Download these scan results",
  kept: "The page keeps your last three scans until the program ends; headscope serve --census opens the downloaded file again.",
};
