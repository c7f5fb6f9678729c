"""Row formats are chosen by trial: the tokens that a tokenizer adds, and models whose documents cannot share rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
import transformers
from tests.scan.tiny import Bytes, TinyModel, family, open_tiny
from torch import Tensor, nn

from headscope.attention.masks import full
from headscope.attention.module import MultiHeadAttention
from headscope.errors import InputError
from headscope.models.loading import open_model
from headscope.models.native import NativeModel
from headscope.scan.corpus.packing import RowFormat
from headscope.scan.corpus.packing_check import _added_tokens, choose_row_format


class Framed(Bytes):
    """Adds tokens of its own before and after every text."""

    def __init__(self, before: Sequence[int], after: Sequence[int]) -> None:
        super().__init__()
        self.before, self.after = list(before), list(after)

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        ids = list(text.encode())
        return {"input_ids": [*self.before, *ids, *self.after] if add_special_tokens else ids}


def framed(before: Sequence[int] = (), after: Sequence[int] = ()) -> NativeModel:
    return NativeModel(TinyModel(), Framed(before, after), name="tiny")


@pytest.mark.parametrize(("before", "after"), [((), ()), ((256,), ()), ((), (3,)), ((256, 1), (2,))])
def test_tokens_that_the_tokenizer_adds_are_found_on_either_side(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    model = framed(before, after)
    assert _added_tokens(model) == (before, after)
    assert choose_row_format(model, 32) == RowFormat(32, before, after)


def test_no_added_tokens_are_found_where_the_text_itself_is_tokenised_differently() -> None:
    class Other(Bytes):
        def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
            ids = list(text.encode())
            return {"input_ids": ids[::-1] if add_special_tokens else ids}

    assert _added_tokens(NativeModel(TinyModel(), Other(), name="tiny")) == ((), ())


@pytest.mark.parametrize("context", [3, 4])
def test_a_context_too_short_for_two_tokens_of_text_is_refused(context: int) -> None:
    with pytest.raises(
        InputError,
        match=f"context={context} leaves fewer than 2 tokens for text beside the 3 tokens .* give at least 5",
    ):
        choose_row_format(framed((256, 1), (2,)), context)
    assert choose_row_format(framed((256, 1), (2,)), 5).document_tokens == 2


def test_documents_share_rows_with_rotary_positions_but_not_with_learned_ones() -> None:
    assert choose_row_format(open_tiny(), 64) == RowFormat(64)
    assert choose_row_format(open_tiny(absolute=True), 64) == RowFormat(64, share_rows=False)


class Leaks(TinyModel):
    """Every token also receives the one before it, whichever piece that is in."""

    def forward(self, ids: Tensor) -> Tensor:
        before = nn.functional.pad(self.embedding(ids), (0, 0, 1, 0))[:, :-1]
        return super().forward(ids) + self.unembedding(before.cumsum(1))  # type: ignore[no-any-return]


def test_a_model_that_leaks_between_documents_gets_one_row_per_piece() -> None:
    assert choose_row_format(NativeModel(Leaks(), Bytes(), name="leaks"), 64).share_rows is False


def test_a_leak_is_found_with_a_tokenizer_that_knows_no_word_of_the_sample_texts() -> None:
    class Unknown(Bytes):
        def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
            return {"input_ids": [0] * len(text)}

    absolute = NativeModel(TinyModel(absolute=True), Unknown(), name="tiny")
    constant = family("llama4, in chunks of 24")
    assert choose_row_format(absolute, 64).share_rows is False
    assert choose_row_format(open_model(constant, Unknown()), 64).share_rows is False


def test_the_row_format_in_the_recipe() -> None:
    shared = RowFormat(8, (1,), (2, 3), first_position=0).to_recipe()
    assert shared == {
        "context": 8,
        "tokens_before_each_piece": [1],
        "tokens_after_each_piece": [2, 3],
        "rows": "positions begin again with each piece",
    }
    assert RowFormat(8).to_recipe()["rows"] == "positions run on through a row"
    assert RowFormat(8, share_rows=False).to_recipe()["rows"] == "one piece a row"
    cut = RowFormat(8, share_rows=False, pads_rows=False)
    assert cut.to_recipe()["rows"] == "one piece a row, without padding"


class FromOne(transformers.GPT2LMHeadModel):
    """Numbers positions from 1."""

    def forward(self, input_ids: Tensor, position_ids: Tensor | None = None, **more: object) -> object:
        if position_ids is None:
            position_ids = torch.arange(1, 1 + input_ids.shape[1])[None]
        return super().forward(input_ids, position_ids=position_ids, **more)


def test_a_family_may_number_positions_from_one() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=300, n_embd=32, n_layer=1, n_head=4, n_positions=64)
    model = FromOne(config).eval()
    for weight in model.parameters():
        weight.data.mul_(4.0)
    assert choose_row_format(open_model(model, Bytes()), 60) == RowFormat(60, first_position=1)


@pytest.mark.parametrize("leaks", [False, True])
def test_texts_behind_many_added_tokens_are_tried_in_calls_of_their_own(leaks: bool) -> None:
    before = tuple(range(100))
    made = (Leaks if leaks else TinyModel)(context=400)
    model = NativeModel(made, Framed(before, ()), name="tiny")
    assert choose_row_format(model, 400) == RowFormat(400, before, (), share_rows=not leaks)


class Pooled(TinyModel):
    """Also attends from the last token alone, and within the first half."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = MultiHeadAttention(16, n_heads=2, d_head=8)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        self.pool(x[:, -1:], x, mask=full())
        super().forward(ids[:, : len(ids[0]) // 2])
        return super().forward(ids)


def test_attention_of_other_lengths_than_the_text_is_left_as_it_is() -> None:
    assert choose_row_format(NativeModel(Pooled(), Bytes(), name="pooled"), 64) == RowFormat(64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_logits_are_equal_to_the_precision_of_the_model(dtype: torch.dtype) -> None:
    assert choose_row_format(NativeModel(TinyModel().to(dtype), Bytes(), name="tiny"), 64).share_rows
