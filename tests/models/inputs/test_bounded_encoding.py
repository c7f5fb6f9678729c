"""Limits on what a tokenizer and a chat template read and return."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from tests.models import tiny

from headscope.errors import InputError
from headscope.models.inputs import tokens
from headscope.models.inputs.tokens import InputProcessor, render_conversation

CHAT = [{"role": "user", "content": "a"}]
PLAIN = "{% for one in messages %}<{{ one.role }}>{{ one.content }}{% endfor %}"
PLAIN += "{% if add_generation_prompt %}<bot>{% endif %}"
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def test_more_tokens_than_are_read_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 3)
    reader = InputProcessor(tiny.tokenizer(), vocabulary=13, context=None)
    assert reader.token_ids("it was tired") == [9, 10, 11]
    for read in (reader.prepare, reader.token_ids, lambda text: reader.token_ids_of(["it", text])):
        with pytest.raises(InputError, match="tokenizer makes 4 tokens of the text, and at most 3 are read"):
            read("it was tired .")


def test_longer_decoded_text_than_is_shown_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_CHARACTERS", 4)
    reader = InputProcessor(tiny.tokenizer(), vocabulary=13, context=None)
    assert reader.text_of(9) == "it"
    with pytest.raises(InputError, match="tokenizer writes 5 characters for token 11, and at most 4 are shown"):
        reader.text_of(11)
    with pytest.raises(InputError, match="tokenizer writes 6 characters for these tokens"):
        reader.decode(torch.tensor([9, 10]))


@pytest.fixture
def no_trace() -> Iterator[None]:
    before = sys.gettrace()
    yield
    assert sys.gettrace() is before


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (LOOPS, "it takes more than 0.2 seconds"),
        ("{{ 'a' * 5000000 }}", "it makes 5,000,000 characters; at most 4,194,304 are read at once"),
        ("{{ raise_exception('only one role') }}", "only one role"),
        ("{% for %}", "Expected"),
    ],
)
def test_failing_chat_template_is_an_input_error(
    monkeypatch: pytest.MonkeyPatch, no_trace: None, template: str, why: str
) -> None:
    monkeypatch.setattr(tokens, "TEMPLATE_SECONDS", 0.2 if template == LOOPS else 60.0)
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(InputError, match=rf"chat template fails on the conversation \({why}.*give text instead of"):
        render_conversation(tokenizer, CHAT)


def test_conversation_is_rendered_as_transformers_does() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = PLAIN
    assert render_conversation(tokenizer, [*CHAT, {"role": "bot", "content": "ä \n é"}]) == "<user>a<bot>ä \n é<bot>"
    with pytest.raises(
        InputError, match=r"the conversation contains something that is not text: .*object is not JSON serializable"
    ):
        render_conversation(tokenizer, [{"role": "user", "content": object()}])
