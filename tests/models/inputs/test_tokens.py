"""What a person may give, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.errors import InputError
from headscope.models.inputs.tokens import Reader


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(tiny.tokenizer(), vocabulary=13, context=6)


def test_text_keeps_its_places(reader: Reader) -> None:
    prepared = reader.prepare("it was  tired.")
    assert prepared.inputs["input_ids"].tolist() == [[9, 10, 11, 12]]
    assert [(token.start, token.end) for token in prepared.tokens] == [(0, 2), (3, 6), (8, 13), (13, 14)]


@pytest.mark.parametrize("ids", [[4, 5, 6], torch.tensor([4, 5, 6]), torch.tensor([[4, 5, 6]])])
def test_ids_are_read_as_tokens(reader: Reader, ids: Any) -> None:
    prepared = reader.prepare(ids)
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
        (("a", "b"), "for models that read one text and write another"),
        ([{"role": "user", "content": "it"}], "has no chat template"),
    ],
)
def test_what_cannot_be_read_is_said(reader: Reader, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        reader.prepare(given)


def test_messages_go_through_the_chat_template() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}."
    prepared = Reader(tokenizer, vocabulary=13, context=None).prepare([{"role": "user", "content": "the horse"}])
    assert [token.text for token in prepared.tokens] == ["the", "horse", "."]


def test_a_pair_is_for_models_that_write() -> None:
    prepared = Reader(tiny.tokenizer(), vocabulary=13, context=None, start=1).prepare(("the horse", "it was"))
    assert prepared.inputs["decoder_input_ids"].tolist() == [[1, 9, 10]]
    assert [token.text for token in prepared.decoder_tokens] == ["[start]", "it", "was"]


def test_without_a_tokenizer_ids_still_work() -> None:
    reader = Reader(None, vocabulary=13, context=None)
    assert [token.text for token in reader.prepare([4, 5]).tokens] == ["[4]", "[5]"]
    assert reader.decode(torch.tensor([4, 5])) == "4 5"
    with pytest.raises(InputError, match="no tokenizer was given, so this model cannot read text"):
        reader.prepare("the horse")


def test_pieces_of_text_have_ids_of_their_own(reader: Reader) -> None:
    assert reader.token_ids("tired") == [11]
    assert reader.decode(torch.tensor([9, 10])) == "it was"


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
def test_things_that_are_no_ids_of_one_text_are_said(reader: Reader, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        reader.prepare(given)


def test_what_was_written_is_held_to_the_same_limits_as_what_is_read() -> None:
    reader = Reader(tiny.tokenizer(), vocabulary=12, context=4, start=1)
    assert reader.prepare(("the horse", "it was tired")).inputs["decoder_input_ids"].shape == (1, 4)
    with pytest.raises(InputError, match="what was written so far has 5 tokens, and this model reads at most 4"):
        reader.prepare(("the horse", "it was tired it"))
    with pytest.raises(InputError, match="token 12 is outside this model's vocabulary of 0–11"):
        reader.prepare(("the horse", "tired."))


def test_a_text_to_go_on_from_begins_the_decoder_with_its_start_token() -> None:
    reader = Reader(tiny.tokenizer(), vocabulary=13, context=None, start=2)
    for given in ("the horse", [4, 5]):
        prepared = reader.prepare(given)
        assert prepared.inputs["decoder_input_ids"].tolist() == [[2]]
        assert [token.text for token in prepared.decoder_tokens] == ["[end]"]


def test_a_slow_tokenizer_reads_without_places() -> None:
    class Slow:
        """As much of a tokenizer as a text needs; it keeps no offsets."""

        is_fast = False

        def __call__(self, text: str, **named: object) -> dict[str, list[int]]:
            assert "return_offsets_mapping" not in named
            return {"input_ids": [len(word) for word in text.split()]}

        def decode(self, ids: list[int], **_: object) -> str:
            return "x" * ids[0]

        def convert_ids_to_tokens(self, token: int) -> str:
            return "▁" + "x" * token

    prepared = Reader(Slow(), vocabulary=9, context=None).prepare("it was tired")
    assert [(token.id, token.text, token.start, token.end) for token in prepared.tokens] == [
        (2, " xx", None, None),
        (3, " xxx", None, None),
        (5, " xxxxx", None, None),
    ]


def test_a_conversation_keeps_its_places_and_its_limits() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}."
    reader = Reader(tokenizer, vocabulary=13, context=4)
    prepared = reader.prepare([{"role": "user", "content": "the horse"}, {"role": "assistant", "content": "it"}])
    assert [(token.start, token.end) for token in prepared.tokens] == [(0, 3), (4, 9), (10, 12), (13, 14)]
    with pytest.raises(InputError, match="the conversation has 6 tokens, and this model reads at most 4"):
        reader.prepare([{"role": "user", "content": "the horse it was tired"}])
    with pytest.raises(InputError, match="no tokenizer was given, so this model cannot read messages"):
        Reader(None, vocabulary=13, context=4).prepare([{"role": "user", "content": "it"}])
