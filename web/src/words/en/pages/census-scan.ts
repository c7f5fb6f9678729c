// Strings of the census page's scan of a pasted text.
export default {
  title: "Scan a text of your own",
  says: "Paste a text. Every head of the model is asked every question at every token of it, and the result is a census like this one, yours alone.",
  label: "Text to scan",
  placeholder: "A few hundred words or more: the longer the text, the narrower the intervals",
  model: "Model",
  scan: "Scan this text",
  stop: "Stop",
  length: (now: string, most: string) => `${now} of ${most} characters`,
  tooLong: (over: string) => `${over} characters too many`,
  waiting: "waiting for its turn",
  reading: "reading the text",
  done: (tokens: string) => `scanned ${tokens} tokens`,
  far: (done: string, total: string) => `${done} of ${total} tokens`,
  stopped: "Stopped. Nothing was kept.",
  download: "Download this census",
  kept: "The page keeps your last three scans until the program ends; headscope serve --census opens the downloaded file again.",
};
