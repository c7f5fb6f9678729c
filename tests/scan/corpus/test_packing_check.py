"""Row formats are chosen by trial: the tokens that a tokenizer adds, and models whose documents cannot share rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.scan.tiny import Bytes, TinyModel, family, open_tiny
from torch import Tensor, nn

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
        match=f"context={context} leaves fewer than 2 tokens for text on top of the 3 tokens .* give at least 5",
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
