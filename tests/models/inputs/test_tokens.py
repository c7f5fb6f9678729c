"""Text, token ids and messages become model inputs; anything else is refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.errors import InputError
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


def test_a_pair_is_for_encoder_decoders() -> None:
    prepared = InputProcessor(tiny.tokenizer(), vocabulary=13, context=None, start=1).prepare(("the horse", "it was"))
    assert prepared.inputs["decoder_input_ids"].tolist() == [[1, 9, 10]]
    assert [token.text for token in prepared.decoder_tokens] == ["[start]", "it", "was"]


def test_without_a_tokenizer_ids_still_work() -> None:
    processor = InputProcessor(None, vocabulary=13, context=None)
    assert [token.text for token in processor.prepare([4, 5]).tokens] == ["[4]", "[5]"]
    assert processor.decode(torch.tensor([4, 5])) == "4 5"
    with pytest.raises(InputError, match="no tokenizer was given, so this model cannot read text"):
        processor.prepare("the horse")


def test_texts_together_have_the_ids_of_each(processor: InputProcessor) -> None:
    texts = ["the cat sat", "on", "", "a mat and the cat"]
    assert processor.token_ids_of(texts) == [processor.token_ids(text) for text in texts]


def test_token_ids_have_no_special_tokens(processor: InputProcessor) -> None:
    assert processor.token_ids("tired") == [11]
    assert processor.decode(torch.tensor([9, 10])) == "it was"


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


def test_the_decoders_tokens_have_the_same_limits_as_the_encoders() -> None:
    processor = InputProcessor(tiny.tokenizer(), vocabulary=12, context=4, start=1)
    assert processor.prepare(("the horse", "it was tired")).inputs["decoder_input_ids"].shape == (1, 4)
    with pytest.raises(InputError, match="what was written so far has 5 tokens, and this model reads at most 4"):
        processor.prepare(("the horse", "it was tired it"))
    with pytest.raises(InputError, match="token 12 is outside this model's vocabulary of 0–11"):
        processor.prepare(("the horse", "tired."))


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
