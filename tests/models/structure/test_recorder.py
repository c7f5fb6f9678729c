"""A recorded pass: one at a time, from its inputs to the end of the stream, with nothing left over from another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.models import tiny
from tests.models.structure.test_carried_operations import SQUARE, record
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import open_model
from headscope.models.structure.recorder import (
    _culprit,
    _reason,
    _refuse_inner_sources,
    _token_embeddings,
    current_recorder,
    record_stream,
    recording_stream,
)
from headscope.models.structure.tape import Mark, Node
from headscope.models.structure.trace import hooked
from headscope.models.structure.writers import SiteReads

SHORT, LONG = ({"input_ids": torch.arange(3, 3 + count)[None]} for count in (5, 7))


@pytest.fixture(scope="module")
def gpt2() -> Iterator[HuggingFaceModel]:
    opened = open_model(tiny.gpt2())
    yield opened
    opened.close()


def test_a_pass_ends_with_nothing_open(gpt2: HuggingFaceModel) -> None:
    stream = record_stream(gpt2, SHORT)
    assert (stream.tape.stack, stream.tape.sites, stream.tape.joins) == ([], [], {})
    assert set(stream.sites) == {"0", "1"}
    assert stream.final is not None
    assert stream.roots == [stream.final], "the logits are no part of the stream"
    assert all(isinstance(root, Node) for root in stream.roots)
    assert current_recorder.get() is None


@torch.no_grad()
def test_every_pass_is_recorded_by_itself(gpt2: HuggingFaceModel) -> None:
    with recording_stream(gpt2) as stream:
        gpt2.run(SHORT)
        first = dict(stream.sites)
        gpt2.run(LONG)
        recorder = current_recorder.get()
        assert recorder is not None
        assert recorder.waiting == []
        assert all(stream.sites[site] is not reads for site, reads in first.items())
        assert {shape[1] for shape in stream.tape.joins if len(shape) == 3} == {7}
    assert [node.shape[-2] for node in (stream.node("1", side) for side in ("q", "k", "v"))] == [7, 7, 7]


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


def test_a_reader_is_open_until_it_attends(gpt2: HuggingFaceModel) -> None:
    layer: Any = gpt2.model.transformer.h[0]
    seen: list[bool] = []

    def note(module: nn.Module, args: Any, kwargs: Any) -> None:
        recorder = current_recorder.get()
        assert recorder is not None
        seen.append(recorder.tape.in_site)

    with hooked([layer.ln_1, layer.attn.c_attn, layer.attn.c_proj, layer.mlp], before=note):
        record_stream(gpt2, SHORT)
    assert seen == [False, True, False, False]


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


def test_what_an_observer_returns_goes_on(gpt2: HuggingFaceModel) -> None:
    seen: list[str] = []

    def observer(site: str, call: Call) -> Tensor:
        seen.append(site)
        return plain(call)

    record_stream(gpt2, SHORT, observer)
    assert seen == ["0", "1"]


def test_a_block_inside_a_block_is_one_and_another_models_is_not(gpt2: HuggingFaceModel) -> None:
    other = open_model(tiny.gpt2())
    with recording_stream(gpt2) as stream:
        with recording_stream(gpt2) as same:
            assert same is stream
        with recording_stream(other) as different:
            assert different is not stream
    other.close()


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = self.second = nn.Embedding(5, 2)
        self.positions, self.out = nn.Embedding(5, 2), nn.Linear(2, 5, bias=False)


def test_the_token_embedding_is_known_under_all_its_paths() -> None:
    assert _token_embeddings(TwoNames()) == {"first", "second"}
    tied = TwoNames()
    tied.out.weight = tied.first.weight
    assert _token_embeddings(tied) == {"first", "second", "out"}
    assert _token_embeddings(nn.Linear(2, 2)) == frozenset()
    assert _token_embeddings(TwoNames().to("meta")) == frozenset()


def mark(op: str, path: str = "") -> Mark:
    return Mark(None, False, True, op, path, False, 0)


@pytest.mark.parametrize(
    ("noted", "why"),
    [
        (None, "it is not computed from this text"),
        (mark("clamp", "layers.0"), "clipping in layers.0 is neither linear nor a norm"),
        (mark("exp"), "the operation exp in the model is neither linear nor a norm"),
    ],
)
def test_the_operation_that_ends_what_is_carried_is_named(noted: Mark | None, why: str) -> None:
    assert _reason(noted) == why


def refused(work: Any) -> SiteReads:
    out, tape = record(work, in_site=True)
    node = tape.node_of(out)
    assert node is not None
    reads = SiteReads({"q": node})
    _refuse_inner_sources("0", reads)
    return reads


def test_a_side_is_refused_without_a_matrix_or_with_a_source_of_its_own() -> None:
    assert refused(lambda x, y: (x + y) @ SQUARE).refused == {}
    bare = refused(lambda x, y: x + y)
    assert (bare.nodes, bare.refused) == ({}, {"q": "no matrix of its attention module computes it"})
    curved = refused(lambda x, y: (x + y) @ SQUARE + (x + y).exp().tanh() * 2)
    assert (curved.nodes, curved.refused) == ({}, {"q": _culprit("exp", "", None)})
