// The frame of a chat (an MCP App): its host sends one tool's result, whose hidden part holds the data of one head.

import { fromBase64 } from "../wire";

interface Message {
  id?: number;
  method?: string;
  params?: { _meta?: Record<string, { at: string; data: string } | undefined> };
}

const LOOK = "headscope/look"; // app/mcp.py writes it
const HELLO = {
  appInfo: { name: "headscope", version: "1" },
  appCapabilities: {},
  protocolVersion: "2026-01-26",
};

const say = (message: object) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

/** Greets the host and waits for a result that holds a head's data. */
export function headFromChat(): Promise<{ at: string; bytes: ArrayBuffer }> {
  return new Promise((resolve) => {
    addEventListener("message", ({ data, source }: MessageEvent<Message | null>) => {
      if (source !== parent || !data) return;
      if (data.id === 1) say({ method: "ui/notifications/initialized" });
      const sent = data.method === "ui/notifications/tool-result" ? data.params?._meta?.[LOOK] : undefined;
      if (sent) resolve({ at: sent.at, bytes: fromBase64(sent.data) });
    });
    say({ id: 1, method: "ui/initialize", params: HELLO });
  });
}

/** Tells the host how high the page is, now and whenever that changes. */
export function keepHeight(): void {
  const page = document.getElementById("headscope")!;
  const tell = () =>
    say({
      method: "ui/notifications/size-changed",
      params: { width: page.clientWidth, height: Math.ceil(page.getBoundingClientRect().height) },
    });
  new ResizeObserver(tell).observe(page);
}
