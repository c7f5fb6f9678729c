"""Tokenizers and chat templates from strangers that do not end, or take all memory: they do so in a child."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest
import torch
from tokenizers import Regex, decoders, normalizers, pre_tokenizers

import headscope
from headscope.errors import InputError
from headscope.models.inputs import isolated
from headscope.models.inputs.child_pool import CHILD, CHILDREN, KEPT, Child
from headscope.models.inputs.isolated import MOST_STEPS, Limits
from headscope.models.inputs.pattern_cost import NO_BOUND, backtracking_exponent
from headscope.models.inputs.tokens import InputProcessor
from tests.attack.test_models_tokenizers import processor

SOON = Limits(seconds=1, megabytes=256)
CHAT = [{"role": "user", "content": "a"}]
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
DOUBLES = "{% set ns = namespace(x='abc') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"
PLAIN = "{% for one in messages %}<{{ one.role }}>{{ one.content }}{% endfor %}"
PLAIN += "{% if add_generation_prompt %}<bot>{% endif %}"

PATTERNS = {
    r"(?i:'s|'t|'re|'ve|'m)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": 1,
    r"[^\r\n\p{L}]?[\p{Lu}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t)?": 1,
    r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+": 0,
    " {2,}": 0, "(?=a)": 0, "": 0, r"[]\]a]+": 0, "[a]+": 0, "[^]a+]b": 0, "(?i)ab+": 0, "(?<n>a)b": 0,
    "a+b": 1, "a{0,500}b": 1, "a{0,5}b": 0, "a*a*a*b": 3, "(?:a+|b)c": 1, "(ab)+c": 1, "a+(?:b+c)?": 1,
    "(a|aa)+$": NO_BOUND, "(a+)+$": NO_BOUND, "(a?){50}b": NO_BOUND, r"(a)\1*": NO_BOUND, "(?(1)a|b)": NO_BOUND,
    "(?~ab)": NO_BOUND, r"(?<n>a\g<n>?b)": NO_BOUND, "(?x)a b": NO_BOUND, "x**": NO_BOUND,
    "(": NO_BOUND, ")": NO_BOUND, "[": NO_BOUND, "(*FAIL)": NO_BOUND, "\\": NO_BOUND,
}  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_how_far_a_pattern_may_backtrack_is_read_from_its_form(pattern: str) -> None:
    assert backtracking_exponent(pattern) == PATTERNS[pattern]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done in children."""
    tasks: list[str] = []
    run = isolated.Isolation._run

    def noted(self: Any, what: str, asked: dict[str, Any], *rest: Any) -> Any:
        tasks.append(asked["task"])
        return run(self, what, asked, *rest)

    monkeypatch.setattr(isolated.Isolation, "_run", noted)
    return tasks


def hurried(reader: InputProcessor, **limits: Any) -> InputProcessor:
    reader.isolation.limits = dataclasses.replace(SOON, **limits)
    return reader


SLOW = {
    "pre_tokenizer": pre_tokenizers.Split(Regex("a*a*b"), "isolated"),
    "normalizer": normalizers.Sequence([normalizers.Replace(Regex("a*a*b"), "b")]),
}


@pytest.fixture(autouse=True)
def no_children() -> Iterator[None]:
    """Each test begins and ends without children."""
    CHILDREN.close()
    yield
    CHILDREN.close()


def children() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # ended, and not yet waited for
            found += [child] if CHILD.name in " ".join(child.cmdline()) else []
    return found


@pytest.mark.parametrize("part", SLOW)
def test_a_pattern_that_is_slow_without_giving_up_is_stopped_in_a_child(part: str, started: list[str]) -> None:
    reader = hurried(processor(**{part: SLOW[part]}))
    with pytest.raises(InputError, match=r"tokenizer was stopped on the text: it takes more than 1 seconds or 256 MB"):
        reader.prepare("a" * 3000 + "xb")
    assert started == ["encode"]
    assert [fork for child in children() for fork in child.children()] == []


def test_a_child_that_is_not_heard_from_is_ended() -> None:
    reader = hurried(processor(pre_tokenizer=SLOW["pre_tokenizer"]), seconds=100, wait=0.01)
    with pytest.raises(InputError, match="was stopped on the text"):
        reader.token_ids("a" * 3000 + "xb")
    assert children() == []


def test_ordinary_texts_start_no_child(started: list[str]) -> None:
    embedded = headscope.load().model.processor
    embedded.token_ids("The horse crossed the road. " * 1000)
    embedded.text_of(7)
    processor(pre_tokenizer=SLOW["pre_tokenizer"]).token_ids("a" * 20)
    processor(decoder=decoders.Replace(Regex("[^a]*[^b]*c"), "b")).token_ids("a" * 9000)
    assert started == []


def test_long_texts_are_tried_where_a_pattern_could_take_the_square_of_their_length(started: list[str]) -> None:
    reader = headscope.load().model.processor
    short = int(MOST_STEPS**0.5)
    for length, tried in ((short, []), (short + 4, ["encode"])):
        reader.token_ids("word" * (length // 4))
        assert started == tried


def test_a_decoder_with_a_pattern_is_tried_in_a_child(started: list[str]) -> None:
    reader = processor(decoder=decoders.Replace(Regex("(a|ab)+"), "b"))
    assert reader.text_of(0) == "b"
    assert started == ["decode"]
    assert reader.decode(torch.tensor([0])) == "b"
    assert started == ["decode", "decode"]


def test_every_way_to_tokens_is_tried(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "MOST_STEPS", 26)
    reader = processor(pre_tokenizer=SLOW["pre_tokenizer"])
    reader.start = 0
    reader.token_ids("aa")
    assert started == [], "eight steps"
    reader.token_ids("aaa")
    assert started == ["encode"], "27 steps"
    reader.token_ids_of(["aaa", "a"])
    reader.prepare(("a", "aaa"))
    assert started == ["encode"] * 3


@pytest.mark.parametrize("template", [LOOPS, DOUBLES], ids=["loops", "doubles"])
def test_a_chat_template_that_does_not_end_is_a_sentence(template: str) -> None:
    reader = hurried(processor())
    reader.tokenizer.chat_template = template
    with pytest.raises(
        InputError,
        match=r"model's chat template was stopped on the conversation: .* give text instead of messages",
    ):
        reader.prepare(CHAT)


def test_a_chat_template_that_writes_too_much_or_fails_is_a_sentence() -> None:
    reader = processor()
    for template, why in (
        ("{{ 'a' * 5000000 }}", r"it makes 5,000,000 characters; at most 4,194,304 are read at once"),
        ("{{ raise_exception('only one role') }}", "only one role"),
        ("{% for %}", "Expected"),
    ):
        reader.tokenizer.chat_template = template
        with pytest.raises(InputError, match=rf"chat template gives up on the conversation \({why}"):
            reader.prepare(CHAT)
    reader.tokenizer.chat_template = PLAIN
    with pytest.raises(InputError, match=r"the conversation holds what is no text: .*object is not JSON serializable"):
        reader.prepare([{"role": "user", "content": object()}])


def test_a_conversation_is_what_transformers_makes_of_it() -> None:
    reader = processor(pre_tokenizer=pre_tokenizers.Whitespace())
    reader.tokenizer.chat_template = PLAIN
    reader.tokenizer.bos_token = "[UNK]"
    chat = [*CHAT, {"role": "bot", "content": "ä \n é"}]
    expected = reader.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert expected == "<user>a<bot>ä \n é<bot>"
    assert reader.isolation.render(chat) == expected


def test_conversations_share_a_child_and_nothing_of_one_is_left_for_the_next() -> None:
    reader = hurried(processor())
    reader.tokenizer.chat_template = PLAIN
    first = reader.isolation.render(CHAT)
    child = children()
    for template in (LOOPS, DOUBLES, "{% for %}"):
        reader.tokenizer.chat_template = template
        with pytest.raises(InputError, match="chat template"):
            reader.isolation.render(CHAT)
    reader.tokenizer.chat_template = PLAIN
    assert reader.isolation.render(CHAT) == first
    assert children() == child
    assert len(child) == 1


def test_a_child_that_has_ended_is_replaced() -> None:
    reader = processor()
    reader.tokenizer.chat_template = PLAIN
    first = reader.isolation.render(CHAT)
    (idle,) = CHILDREN._idle
    idle.process.kill()
    idle.process.wait(60)
    assert reader.isolation.render(CHAT) == first
    assert [child.pid for child in children()] != [idle.process.pid]


def test_a_child_that_ends_before_it_is_asked_says_nothing_about_the_work() -> None:
    child = Child()
    assert child.process.stdin is not None
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, child.process.stdin.fileno(), inheritable=False)  # the end of its input, and nobody has noticed
    os.close(nowhere)
    assert child.ask(b"{}", 60.0) is None
    child.close()


def test_at_most_two_idle_children_are_kept() -> None:
    reader = processor()
    reader.tokenizer.chat_template = PLAIN
    together = [threading.Thread(target=reader.isolation.render, args=(CHAT,)) for _ in range(KEPT + 1)]
    for one in together:
        one.start()
    for one in together:
        one.join()
    assert 1 <= len(children()) <= KEPT
