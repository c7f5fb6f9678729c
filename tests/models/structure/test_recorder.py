"""A recorded pass stops where nothing more is wanted, and one that failed leaves nothing to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.models import tiny
from tests.models.structure.test_carried_operations import record
from torch import Tensor, nn

from headscope.attention.observer import Call
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import open_model
from headscope.models.modes import hooked
from headscope.models.structure.recorder import (
    SiteReads,
    _refuse_inner_sources,
    record_stream,
    recording_stream,
)
from headscope.models.structure.tape import Mark

SHORT, LONG = ({"input_ids": torch.arange(3, 3 + count)[None]} for count in (5, 7))


@pytest.fixture(scope="module")
def gpt2() -> Iterator[HuggingFaceModel]:
    opened = open_model(tiny.gpt2())
    yield opened
    opened.close()


@torch.no_grad()
def test_a_pass_that_failed_leaves_nothing_to_the_next(gpt2: HuggingFaceModel) -> None:
    def fail(site: str, call: Call) -> Tensor:
        raise KeyError(site)

    with recording_stream(gpt2) as stream:
        with pytest.raises(KeyError):
            gpt2.run(SHORT, fail)
        assert stream.tape.stack
        gpt2.run(SHORT)
        assert (stream.tape.stack, stream.tape.sites) == ([], [])


@pytest.mark.parametrize(("until", "calls"), [((), 1), (("0",), 0), (("0", "1"), 0), (("0", "9"), 1)])
def test_no_logit_is_computed_past_the_last_site_that_is_wanted(
    gpt2: HuggingFaceModel, until: tuple[str, ...], calls: int
) -> None:
    called: list[nn.Module] = []
    head: Any = gpt2.model.lm_head
    with hooked([head], before=lambda module, args, kwargs: called.append(module)):
        stream = record_stream(gpt2, SHORT, until=until)
    assert len(called) == calls
    assert stream.final is not None


def mark(op: str, path: str = "") -> Mark:
    return Mark(None, False, True, op, path, False, 0)


def refused(work: Any) -> SiteReads:
    out, tape = record(work, in_site=True)
    node = tape.node_of(out)
    assert node is not None
    reads = SiteReads({"q": node})
    _refuse_inner_sources("0", reads)
    return reads
