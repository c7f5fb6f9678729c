"""Choices are checked once, by name; rows come in whole batches and shards of about the size asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.heads.questions.label_rules import token_class
from headscope.heads.questions.standard_questions import STANDARD
from headscope.scan.options import DEFAULT_CONTEXT, TOKENS_AT_ONCE, ScanOptions
from headscope.scan.tally.reduction import TRAITS

LEAST = {
    "context": 2, "batch": 1, "shard_tokens": 1, "max_tokens": 1, "replicates": 2, "examples": 1, "workers": 1,
    "threads": 1, "seed": 0,
}  # fmt: skip


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_the_least_of_every_number_is_taken_and_one_less_is_refused(name: str, least: int) -> None:
    given: dict[str, Any] = {name: least}
    assert getattr(ScanOptions(**given), name) == least
    with pytest.raises(InputError, match=f"{name}={least - 1}: give at least {least}"):
        ScanOptions(**{name: least - 1})


@pytest.mark.parametrize("name", [*STANDARD, *TRAITS])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"a question named '{name}' is there already; give yours another name"):
        ScanOptions(rules=(token_class(name, "x"),))


def test_two_questions_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="a question named 'mine' is there already"):
        ScanOptions(rules=(token_class("mine", "x"), token_class("mine", "y")))


@pytest.mark.parametrize(
    ("asked", "longest", "found"),
    [
        (None, None, DEFAULT_CONTEXT),
        (None, 512, 512),
        (None, 131_072, DEFAULT_CONTEXT),
        (4096, None, 4096),
        (4096, 8192, 4096),
        (512, 512, 512),
    ],
)
def test_rows_are_as_long_as_asked_else_as_the_model_reads_up_to_a_thousand(
    asked: int | None, longest: int | None, found: int
) -> None:
    assert ScanOptions(context=asked).context_for(longest) == found


def test_rows_longer_than_the_model_reads_are_refused() -> None:
    with pytest.raises(InputError, match="context=513, and this model reads at most 512 tokens; give 512 or less"):
        ScanOptions(context=513).context_for(512)


@given(st.integers(2, 40_000), st.integers(1, 2**20), st.one_of(st.none(), st.integers(1, 64)))
def test_a_shard_is_whole_batches_and_about_as_large_as_asked(context: int, tokens: int, batch: int | None) -> None:
    options = ScanOptions(shard_tokens=tokens, batch=batch)
    at_once, rows = options.batch_for(context), options.rows_in_shard(context)
    assert at_once == (batch if batch is not None else max(1, TOKENS_AT_ONCE // context))
    assert rows % at_once == 0
    assert rows >= at_once
    if rows > at_once:
        assert abs(rows * context - tokens) <= at_once * context / 2
