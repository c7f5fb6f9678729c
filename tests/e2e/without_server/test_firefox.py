"""A published site in Firefox: its model runs there as it does in Chromium."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from headscope import ablate
from headscope.scope import Scope
from tests.app.conftest import SENTENCE
from tests.e2e.reading import at
from tests.e2e.without_server.firefox import ENTER, FIREFOX, firefox

pytestmark = [
    pytest.mark.skipif(FIREFOX is None, reason="no Firefox on PATH; on Debian: apt-get install firefox-esr"),
    pytest.mark.skipif(find_spec("websocket") is None, reason="no websocket-client, which JupyterLab brings"),
]

TEXT = " ".join(SENTENCE.split()[:12])


def number(written: str) -> float:
    return float(written.replace("%", "").replace("<", ""))


def test_a_site_is_read_and_a_head_switched_off_in_firefox(site: str, small: Scope, tmp_path: Path) -> None:
    look, last = small.look(TEXT), 9
    before = look.logits[last].double().softmax(-1)
    with small.edit(ablate("1.4")):
        after = small.look(TEXT).logits[last].double().softmax(-1)
    best = int(before.argmax())
    with firefox(tmp_path) as page:
        page.open(site, at(head="1.4", token=last, compare=0, text="river lamp"))
        page.until("document.querySelectorAll('[role=listbox] [role=option]').length > 0")
        page.call("() => { const box = document.querySelector('textarea'); box.focus(); box.select(); }")
        page.type(TEXT + ENTER)
        page.until(f"document.querySelectorAll('[role=listbox] [role=option]').length === {len(look.tokens)}")
        page.call(f"() => document.querySelectorAll('[role=listbox] [role=option]')[{last}].click()")
        page.click("switch", "without 1.4")
        changed = page.until("document.querySelector('[data-without]')?.textContent.trim()")
        weight = page.until("document.querySelector('.inspector .number')?.textContent.trim()")
        guess = page.until("document.querySelector('[data-guess]')?.textContent.trim()")
        assert page.strays == []
    assert number(weight) == pytest.approx(float(look.pattern("1.4")[last].max()), abs=1e-3)
    assert number(guess) / 100 == pytest.approx(float(before[best]), abs=1e-3)
    assert number(changed) / 100 == pytest.approx(float(after[best]), abs=1e-3)
