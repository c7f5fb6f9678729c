"""Options are checked by name; shards are whole batches of about the size asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.scan.options import DEFAULT_CONTEXT, TOKENS_PER_PASS, ScanOptions

LEAST = {
    "context": 2, "batch": 1, "shard_tokens": 1, "max_tokens": 1, "replicates": 2, "examples": 1, "workers": 1,
    "threads": 1, "seed": 0,
}  # fmt: skip


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_the_smallest_value_of_every_number_is_accepted_and_one_less_is_refused(name: str, least: int) -> None:
    given: dict[str, Any] = {name: least}
    assert getattr(ScanOptions(**given), name) == least
    with pytest.raises(InputError, match=f"{name}={least - 1}: give at least {least}"):
        ScanOptions(**{name: least - 1})


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
def test_the_context_is_as_given_else_the_model_s_up_to_the_default(
    asked: int | None, longest: int | None, found: int
) -> None:
    assert ScanOptions(context=asked).context_for(longest) == found


def test_a_context_longer_than_the_model_s_is_refused() -> None:
    with pytest.raises(InputError, match="context=513, but this model's context is 512 tokens; give 512 or less"):
        ScanOptions(context=513).context_for(512)


@given(
    st.integers(2, 40_000),
    st.integers(1, 2**20),
    st.one_of(st.none(), st.integers(1, 64)),
    st.sampled_from(("cpu", "cuda")),
)
def test_a_shard_is_whole_batches_and_about_as_large_as_asked(
    context: int, tokens: int, batch: int | None, kind: str
) -> None:
    options, device = ScanOptions(shard_tokens=tokens, batch=batch), torch.device(kind)
    batch_rows, rows = options.batch_for(context, device), options.rows_in_shard(context, device)
    assert batch_rows == (batch if batch is not None else max(1, TOKENS_PER_PASS[kind] // context))
    assert rows % batch_rows == 0
    assert rows >= batch_rows
    if rows > batch_rows:
        assert abs(rows * context - tokens) <= batch_rows * context / 2
