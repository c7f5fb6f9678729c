"""Text, token ids and messages become model inputs; anything else is refused with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.models import tiny
from tests.models.media import TextsKept

from headscope.errors import InputError
from headscope.models.inputs import tokens
from headscope.models.inputs.media import PIXELS, MediaProcessors, Picture
from headscope.models.inputs.tokens import InputProcessor


@pytest.fixture(scope="module")
def processor() -> InputProcessor:
    return InputProcessor(tiny.tokenizer(), vocabulary=13, context=6)


def test_tokens_of_a_text_have_their_character_spans(processor: InputProcessor) -> None:
    prepared = processor.prepare("it was  tired.")
    assert prepared.inputs["input_ids"].tolist() == [[9, 10, 11, 12]]
    assert [(token.start, token.end) for token in prepared.tokens] == [(0, 2), (3, 6), (8, 13), (13, 14)]


@pytest.mark.parametrize("ids", [[4, 5, 6], torch.tensor([4, 5, 6]), torch.tensor([[4, 5, 6]])])
def test_ids_become_tokens(processor: InputProcessor, ids: Any) -> None:
    prepared = processor.prepare(ids)
    assert [token.text for token in prepared.tokens] == ["the", "horse", "crossed"]
    assert prepared.inputs["input_ids"].shape == (1, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "the text is empty"),
        ("  \n", "the text is empty"),
        ([], "the list of tokens is empty"),
        ([0, 13], "token 13 is outside this model's vocabulary of 0–12"),
        ("it \udc41", r"the text is not UTF-8: letter 3 is '\\udc41', a stray byte or half of a pair"),
        ([4, 13], "token 13 is outside this model's vocabulary of 0–12"),
        ([-1], "token -1 is outside"),
        ("the " * 7, "the text has 7 tokens, and this model reads at most 6"),
        (torch.tensor([[1, 2], [3, 4]]), "several texts at once"),
        (3.5, "cannot read float; give text"),
        (("a", "b"), "for encoder-decoders; this model reads one text"),
        ([{"role": "user", "content": "it"}], "has no chat template"),
    ],
)
def test_other_inputs_are_refused_with_a_reason(processor: InputProcessor, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        processor.prepare(given)


def test_messages_go_through_the_chat_template() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}."
    prepared = InputProcessor(tokenizer, vocabulary=13, context=None).prepare(
        [{"role": "user", "content": "the horse"}]
    )
    assert [token.text for token in prepared.tokens] == ["the", "horse", "."]


def test_without_a_tokenizer_ids_still_work() -> None:
    processor = InputProcessor(None, vocabulary=13, context=None)
    assert [token.text for token in processor.prepare([4, 5]).tokens] == ["[4]", "[5]"]
    assert processor.decode(torch.tensor([4, 5])) == "4 5"
    with pytest.raises(InputError, match="no tokenizer was given, so this model cannot read text"):
        processor.prepare("the horse")


def test_texts_together_have_the_ids_of_each(processor: InputProcessor) -> None:
    texts = ["the cat sat", "on", "", "a mat and the cat"]
    assert processor.token_ids_of(texts) == [processor.token_ids(text) for text in texts]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.tensor(5), r"a tensor of torch.int64 and shape \(\); token ids are integers of shape \(token\)"),
        (torch.ones(1, 2, 3, dtype=torch.long), r"shape \(1, 2, 3\); token ids are integers"),
        (torch.tensor([True, False]), r"a tensor of torch.bool and shape \(2,\)"),
        (torch.empty(1, 0, dtype=torch.long), "the list of tokens is empty"),
        (torch.ones(3, 2, dtype=torch.int32), r"several texts at once \(3\)"),
        ([True, False], "cannot read list; give text"),
        ([4, 5.0], "cannot read list; give text"),
        (None, "cannot read NoneType"),
        (["the", "horse"], "cannot read list"),
    ],
)
def test_what_is_not_ids_of_one_text_is_refused(processor: InputProcessor, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        processor.prepare(given)


def test_the_decoder_begins_with_its_start_token() -> None:
    processor = InputProcessor(tiny.tokenizer(), vocabulary=13, context=None, start=2)
    for given in ("the horse", [4, 5]):
        prepared = processor.prepare(given)
        assert prepared.inputs["decoder_input_ids"].tolist() == [[2]]
        assert [token.text for token in prepared.decoder_tokens] == ["[end]"]


def test_a_slow_tokenizer_gives_no_character_spans() -> None:
    class Slow:
        """The part of a tokenizer that is used; it has no offsets."""

        is_fast = False

        def __call__(self, text: str, **named: object) -> dict[str, list[int]]:
            assert "return_offsets_mapping" not in named
            return {"input_ids": [len(word) for word in text.split()]}

        def decode(self, ids: list[int], **_: object) -> str:
            return "x" * ids[0]

        def convert_ids_to_tokens(self, token: int) -> str:
            return "▁" + "x" * token

    prepared = InputProcessor(Slow(), vocabulary=9, context=None).prepare("it was tired")
    assert [(token.id, token.text, token.start, token.end) for token in prepared.tokens] == [
        (2, " xx", None, None),
        (3, " xxx", None, None),
        (5, " xxxxx", None, None),
    ]


def test_a_conversation_has_character_spans_and_limits() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}."
    processor = InputProcessor(tokenizer, vocabulary=13, context=4)
    prepared = processor.prepare([{"role": "user", "content": "the horse"}, {"role": "assistant", "content": "it"}])
    assert [(token.start, token.end) for token in prepared.tokens] == [(0, 3), (4, 9), (10, 12), (13, 14)]
    with pytest.raises(InputError, match="the conversation has 6 tokens, and this model reads at most 4"):
        processor.prepare([{"role": "user", "content": "the horse it was tired"}])
    with pytest.raises(InputError, match="no tokenizer was given, so this model cannot read messages"):
        InputProcessor(None, vocabulary=13, context=4).prepare([{"role": "user", "content": "it"}])


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("it it it", ""),
        ("it it it it", "the text has 11 characters; the first 8 alone are 3 tokens"),
        ("the road .", ""),
    ],
)
def test_a_long_text_is_refused_by_its_beginning(monkeypatch: pytest.MonkeyPatch, text: str, refused: str) -> None:
    """The first eight characters of the third are two tokens: it is tokenized whole."""
    monkeypatch.setattr(tokens, "BEGINNING", 8)
    reader = InputProcessor(tiny.tokenizer(), vocabulary=13, context=2)
    with pytest.raises(InputError, match=refused or "the text has 3 tokens, and this model reads at most 2"):
        reader.prepare(text)
    assert len(InputProcessor(tiny.tokenizer(), vocabulary=13, context=None).prepare(text).tokens) > 2


IMAGE = Picture(np.zeros((4, 4, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("start", "text", "takes", "written"),
    [
        (2, None, {PIXELS, "decoder_input_ids"}, [2]),
        (2, "it was", {PIXELS, "decoder_input_ids"}, [2, 9, 10]),
        (0, "it was", {PIXELS, "decoder_input_ids"}, [0, 9, 10]),
        (9, "it was", {PIXELS, "decoder_input_ids"}, [9, 10]),
        (2, "it [end]", {PIXELS, "decoder_input_ids"}, [2, 9]),
        (2, "it was", {PIXELS, "decoder_input_ids", "input_ids"}, [2]),
        (2, "it was", {PIXELS, "input_ids"}, None),
        (None, "it was", {PIXELS, "decoder_input_ids", "input_ids"}, None),
        (None, None, {PIXELS}, None),
    ],
)
def test_a_text_is_next_to_the_picture_or_what_was_written_so_far(
    start: int | None, text: str | None, takes: set[str], written: list[int] | None
) -> None:
    both = TextsKept()
    reader = InputProcessor(
        tiny.tokenizer(), vocabulary=13, context=None, start=start, media=MediaProcessors(both, None, both)
    )
    made = reader.media_inputs(IMAGE, text, frozenset(takes), "a model")
    found = made.get("decoder_input_ids")
    assert (None if found is None else found.tolist()) == (None if written is None else [written])
    assert ("input_ids" in made) is (text is not None and "input_ids" in takes)
