"""The notebook widget answers the page's requests with the look's numbers, and errors as problems."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import headscope
from headscope.app.export.widget import Microscope
from headscope.app.wire import unpack
from headscope.heads.look.look import Look

TEXT = "the old lamp on the landing burned until morning"


class Kernel(Microscope):
    """A widget whose messages are kept instead of sent to a browser."""

    def send(self, content, buffers=None):
        self.said = content, buffers

    def hear(self, **message):
        self._handle_custom_msg({"id": 7, **message}, [])
        return self.said


@pytest.fixture
def look(scope):
    with scope.edit(headscope.ablate("0.1")):
        return scope.look(TEXT)


@pytest.fixture
def widget(look):
    return Kernel(look)


def test_the_widget_returns_the_weights_of_the_edited_look(widget, look, scope):
    asked = {"look": widget.name, "head": "1.3", "rows": [0, 9], "columns": [0, 9], "pool": 1, "how": "max"}
    answer, (data,) = widget.hear(ask="weights", body=asked)
    assert answer == {"id": 7}
    np.testing.assert_array_equal(unpack(data).arrays["weights"], look.pattern("1.3"))
    assert not np.allclose(unpack(data).arrays["weights"], scope.look(TEXT).pattern("1.3"))


def test_the_widget_finds_a_typed_token_and_attributes_its_logit(widget, look):
    answer, _ = widget.hear(ask="token", body={"text": "lamp"})
    token = answer["value"]["id"]
    asked = {"look": widget.name, "site": "1", "position": 5, "toward": token, "minus": 1}
    _, (data,) = widget.hear(ask="attribution", body=asked)
    shares = look.logit_attribution("lamp", minus=1, position=5).heads
    np.testing.assert_allclose(unpack(data).arrays["shares"], list(shares.values()), atol=1e-6)


def test_the_widget_explains_an_arrow_a_path_and_a_prediction(scope):
    look = scope.look(TEXT)
    widget = Kernel(look)
    answer, _ = widget.hear(ask="why", body={"look": widget.name, "head": "1.3", "query": 8, "key": 4})
    why = look.why("1.3", 8, 4)
    assert answer["value"]["total"] == pytest.approx(why.total, abs=1e-6)
    assert {each["name"]: each["value"] for each in answer["value"]["answered"]} == pytest.approx(
        {share.name: share.value for share in why.answered}, abs=1e-6
    )
    asked = {"look": widget.name, "writer": "0.1", "reader": "1.3", "into": "k", "query": 8, "key": 4}
    answer, _ = widget.hear(ask="cut-path", body=asked)
    with scope.edit(headscope.ablate(headscope.path("0.1", "1.3", into="k", query=8, key=4))):
        cut = scope.look(TEXT).logits[8]
    assert answer["value"]["logit"]["true"] == pytest.approx(float(cut[answer["value"]["token"]["id"]]), abs=1e-5)
    answer, _ = widget.hear(ask="trace", body={"look": widget.name, "position": 8})
    trace = look.trace(answer["value"]["token"]["id"], position=8)
    assert [step["name"] for step in answer["value"]["steps"]] == [step.name for step in trace.steps]
    assert answer["value"]["total"] == pytest.approx(trace.total, abs=1e-6)


@pytest.mark.parametrize(
    ("message", "kind", "said"),
    [
        ({"ask": "eval"}, "InputError", "unknown request 'eval'; a notebook handles model, roles"),
        ({"ask": "look", "body": {"look": "gone"}}, "ForgottenLookError", "the text of look 'gone' is no longer kept"),
        (
            {"ask": "attribution", "body": {"look": "x", "site": "0", "position": -1}},
            "InputError",
            "position: Input should be",
        ),
    ],
)
def test_the_widget_returns_errors_as_problems(widget, message, kind, said):
    answer, _ = widget.hear(**message)
    assert answer["problem"]["kind"] == kind
    assert answer["problem"]["message"].startswith(said)


def test_a_look_is_plain_text_outside_a_notebook(look):
    assert headscope.load is not None
    assert Look.app is not None
    assert look._repr_mimebundle_() is None


@pytest.mark.slow
def test_loading_a_model_does_not_load_the_app():
    script = "import headscope, sys; headscope.load; print([m for m in sys.modules if m.startswith('headscope.app')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
