"""The widget's script in a real browser. A few lines stand in for the notebook: they carry messages, nothing else."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from headscope.app.export import widget as widget_module
from headscope.app.export.widget import Microscope
from headscope.scope import Scope
from tests.e2e.reading import cell

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
SCRIPT = Path(widget_module.__file__).with_suffix(".js")
NOTEBOOK = """async (program) => {
  const heard = new Set();
  const view = (text) => {
    const bytes = Uint8Array.from("12345678" + atob(text), (letter) => letter.charCodeAt(0));
    return new DataView(bytes.buffer, 8);
  };
  const model = {
    on: (_, listener) => heard.add(listener),
    off: (_, listener) => heard.delete(listener),
    send: async (message) => {
      const [answer, buffers] = await toKernel(message);
      heard.forEach((listener) => listener(answer, buffers.map(view)));
    },
  };
  const { default: widget } = await import(program);
  window.leave = widget.render({ model, el: document.body });
}"""


class Kernel(Microscope):
    def send(self, content: Any, buffers: Any = None) -> None:
        self.said = content, [base64.b64encode(data).decode("ascii") for data in buffers or []]

    def hear(self, message: Any) -> Any:
        self._handle_custom_msg(message, [])
        return self.said


def test_a_notebook_shows_the_microscope_and_answers_clicks_on_a_word_and_on_a_cell(browser: Browser, scope: Scope):
    look = scope.look(TEXT)
    kernel = Kernel(look)
    page = browser.new_page(viewport={"width": 1440, "height": 950})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.expose_function("toKernel", kernel.hear)
    program = base64.b64encode(SCRIPT.read_bytes()).decode("ascii")
    page.evaluate(NOTEBOOK, f"data:text/javascript;base64,{program}")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("application", name="Pattern of head")).to_be_visible()
    expect(frame.get_by_role("textbox", name="Sentence")).to_have_value(TEXT)
    words = frame.get_by_role("listbox", name="Tokens").get_by_role("option")
    expect(words).to_have_count(len(look.tokens))
    words.nth(13).click()
    frame.get_by_role("application", name="All heads").press("]")
    head = frame.get_by_role("heading", name=re.compile("^Head ")).inner_text().split()[-1]
    top = float(look.weights(head)[13].max())
    shown = f"{top:.3f}".removeprefix("0")
    expect(frame.locator(".inspector .number").first).to_have_text(shown)
    guess = look.predictions(13)[0].token.text.strip()
    expect(frame.get_by_role("region", name="Next token")).to_contain_text(guess)
    first = look.where(head).shares["first token"].share
    expect(frame.get_by_role("img", name=f"first token {first:.0%}")).to_be_visible()
    key = int(look.weights(head)[13, 1:].argmax()) + 1
    page.mouse.click(*cell(frame, head, 13, key, len(look.tokens)))
    total = look.why(head, 13, key).total
    expect(frame.locator("[data-total]")).to_have_text(f"{'−' if total < 0 else ''}{abs(total):.2f}")
    page.evaluate("leave()")
    page.close()
    assert errors == []
