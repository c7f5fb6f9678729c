"""One head in the frame of a chat: its host's policy, no fonts, no address, and data that comes by message."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from playwright.sync_api import Browser

pytest.importorskip("mcp", reason="agents need the extra mcp, which is part of dev")
from mcp import Client

from headscope.app.mcp import Tools, server
from headscope.scope import Scope

TEXT = "My white horse drank at the river. My white horse drank at the"
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' data:; connect-src 'none'"
)
HOST = """([page, result, width]) => {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.style = `width: ${width}px; height: 300px; border: 0`;
  addEventListener("message", ({ data, source }) => {
    if (source !== frame.contentWindow) return;
    const say = (message) => source.postMessage({ jsonrpc: "2.0", ...message }, "*");
    if (data.method === "ui/initialize") say({ id: data.id, result: { protocolVersion: data.params.protocolVersion } });
    if (data.method === "ui/notifications/initialized") say({ method: "ui/notifications/tool-result", params: result });
    if (data.method === "ui/notifications/size-changed") frame.style.height = `${data.params.height}px`;
  });
  document.body.append(frame);
  frame.srcdoc = page;
}"""


@pytest.mark.browser
def test_head_is_shown_in_the_sandboxed_frame_of_a_chat(browser: Browser, scope: Scope):
    async def ask() -> tuple[str, dict]:
        async with Client(server(Tools({"embedded": scope}))) as client:
            result = await client.call_tool("show", {"text": TEXT, "head": "5.6"})
            page = await client.read_resource("ui://headscope/head.html")
            return page.contents[0].text, result.model_dump(mode="json", by_alias=True)

    with ThreadPoolExecutor(1) as beside:  # this thread has the loop of the browser
        html, result = beside.submit(anyio.run, ask).result()
    html = html.replace("<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{POLICY}">', 1)
    page = browser.new_page(viewport={"width": 480, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content("<body style='margin: 0'></body>")
    page.evaluate(HOST, [html, result, 480])
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="Head 5.6").wait_for()
    frame.get_by_text(".55").first.wait_for()
    inside = page.frames[1]
    assert inside.evaluate("document.documentElement.scrollWidth") <= 480
    page.wait_for_function("document.querySelector('iframe').clientHeight > 600")
    assert not frame.get_by_role("textbox", name="Sentence").is_visible()
    assert errors == []
    page.close()
