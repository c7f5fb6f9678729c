"""What a model needs is found out by trying: tokens that its tokenizer adds, and rows that cannot be shared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.scan.tiny import Bytes, TinyModel, open_tiny
from torch import Tensor, nn

from headscope.errors import InputError
from headscope.models.native import NativeModel
from headscope.scan.corpus.packing import Frame
from headscope.scan.corpus.packing_check import Fitting, added_tokens, fit


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
    assert added_tokens(model) == (before, after)
    assert fit(model, 32).frame == Frame(32, before, after)


def test_a_tokenizer_that_writes_a_text_otherwise_adds_nothing_that_can_be_told() -> None:
    class Other(Bytes):
        def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
            ids = list(text.encode())
            return {"input_ids": ids[::-1] if add_special_tokens else ids}

    assert added_tokens(NativeModel(TinyModel(), Other(), name="tiny")) == ((), ())


@pytest.mark.parametrize("context", [3, 4])
def test_a_row_with_no_room_for_two_tokens_of_text_is_refused(context: int) -> None:
    with pytest.raises(InputError, match=f"context={context} leaves no room beside the 3 tokens the tokenizer adds"):
        fit(framed((256, 1), (2,)), context)
    assert fit(framed((256, 1), (2,)), 5).frame.room == 2


def test_rotary_positions_run_on_and_learned_ones_need_a_row_each() -> None:
    assert fit(open_tiny(), 64) == Fitting(Frame(64), None)
    assert fit(open_tiny(absolute=True), 64) == Fitting(Frame(64, share_rows=False), None)


class Leaks(TinyModel):
    """Every token also hears the one before it, whichever piece that is in."""

    def forward(self, ids: Tensor) -> Tensor:
        before = nn.functional.pad(self.embedding(ids), (0, 0, 1, 0))[:, :-1]
        return super().forward(ids) + self.unembedding(before.cumsum(1))  # type: ignore[no-any-return]


def test_a_model_in_which_something_else_leaks_gets_a_row_for_each_text() -> None:
    assert fit(NativeModel(Leaks(), Bytes(), name="leaks"), 64).frame.share_rows is False


def test_what_the_recipe_says_of_rows() -> None:
    shared = Fitting(Frame(8, (1,), (2, 3)), 0).words()
    assert shared == {
        "context": 8,
        "tokens_before_each_piece": [1],
        "tokens_after_each_piece": [2, 3],
        "rows": "positions begin again with each piece",
    }
    assert Fitting(Frame(8), None).words()["rows"] == "positions run on through a row"
    assert Fitting(Frame(8, share_rows=False), None).words()["rows"] == "one piece a row"
