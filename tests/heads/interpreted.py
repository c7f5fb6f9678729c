"""Looks whose layers wait to be observed together, by the kernels in Triton's interpreter, beside looks that do not.

Collected by ``test_waiting_layers.py`` in a process of its own, since Triton decides at import whether to interpret.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
import transformers

import headscope
from headscope.attention import reference
from headscope.errors import HeadscopeError
from headscope.heads.look.look import Look
from headscope.scope import Scope
from tests.heads.conftest import counting_forwards, small_gpt2, small_llama
from tests.runs.interpreter import allow_one_element_bounds

allow_one_element_bounds()

TEXTS = [[5, 9, 7, 9, 5, 9, 7, 11], [7], [3, 4, 3, 4, 3]]
SIZES = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip


def windowed() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    config = transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=3)
    return transformers.MistralForCausalLM(config).eval()


def both_ways() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**SIZES)).eval()


@pytest.fixture(params=[small_gpt2, windowed, both_ways], ids=lambda made: made.__name__)
def scope(request: pytest.FixtureRequest) -> Iterator[Scope]:
    with headscope.load(request.param()) as opened:
        yield opened


def assert_equal(ours: Look, theirs: Look) -> None:
    close = {"atol": 2e-5, "rtol": 1e-4}
    torch.testing.assert_close(ours.logits, theirs.logits, **close)
    assert ours.sites == theirs.sites
    for site in theirs.sites:
        mine, other = ours.statistics(site), theirs.statistics(site)
        torch.testing.assert_close(mine.output, other.output, **close)
        torch.testing.assert_close(mine.logsumexp, other.logsumexp, **close)
        torch.testing.assert_close(mine.entropy, other.entropy, **close)
        torch.testing.assert_close(mine.distance, other.distance, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(mine.strongest, other.strongest, **close)
        torch.testing.assert_close(mine.mass, other.mass, **close)
        torch.testing.assert_close(ours.mean_answers(site), theirs.mean_answers(site), **close)
        torch.testing.assert_close(ours.patterns(site), theirs.patterns(site), **close)
        torch.testing.assert_close(ours.value_norms(f"{site}.1"), theirs.value_norms(f"{site}.1"), **close)


@pytest.fixture
def one_by_one(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """The looks of the texts with every layer observed in the pass."""
    with monkeypatch.context() as changed:
        changed.setenv("TRITON_INTERPRET", "0")  # no kernel: every site in the pass, on the CPU
        looks = [scope.observe(text) for text in TEXTS]
        assert all(look.cache.sites for look in looks)
    return looks


def test_a_look_at_a_short_text_is_what_the_long_path_gives(scope: Scope, one_by_one: list[Look]) -> None:
    look = scope.look(TEXTS[0])
    assert not look.cache.sites, "nothing was asked yet, so nothing is observed"
    assert_equal(look, one_by_one[0])


def test_statistics_are_the_definition(scope: Scope) -> None:
    look = scope.look(TEXTS[0])
    for site in look.sites:
        rows = look.statistics(site)
        for head, pattern in enumerate(look.patterns(site)):
            exact = reference.row_statistics(pattern.double())
            torch.testing.assert_close(rows.entropy[0, head].double(), exact.entropy, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(rows.distance.mean[0, head].double(), exact.distance_mean, atol=1e-4, rtol=1e-4)
            assert torch.equal(rows.strongest.key[0, head], exact.strongest_key)


def test_a_padded_batch_is_observed_together_and_equals_its_texts(scope: Scope, one_by_one: list[Look]) -> None:
    scope.look(TEXTS)
    with counting_forwards(scope) as ran:
        looks = scope.look(TEXTS)
    assert len(ran) == 1
    for ours, theirs in zip(looks, one_by_one, strict=True):
        assert_equal(ours, theirs)


def test_looks_whose_layers_wait_are_gone_when_nothing_holds_them(scope: Scope) -> None:
    scope.look(TEXTS)
    gc.disable()
    try:
        held = [weakref.ref(look) for look in (scope.look(TEXTS[0]), *scope.look(TEXTS))]
        assert [look() for look in held] == [None] * len(held)
    finally:
        gc.enable()


def test_edits_and_parts_through_the_output_weight_work_while_layers_wait(scope: Scope) -> None:
    look = scope.look(TEXTS[0])
    before = look.contributions(-1)
    look.statistics(look.sites[0])
    after = look.contributions(-1)
    site = look.sites[0]
    torch.testing.assert_close(before.sites[site].parts, after.sites[site].parts)
    with scope.edit(headscope.ablate(f"{site}.0")):
        edited = scope.look(TEXTS[0])
    assert edited.z(site)[0].eq(0).all()
    torch.testing.assert_close(edited.statistics(site).entropy, look.statistics(site).entropy, atol=1e-5, rtol=1e-4)


def test_scores_too_large_are_refused_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_llama()
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= 1e6
    with headscope.load(model) as opened:
        look = opened.look(TEXTS[0])
        for _ in range(2):  # once refused, they are not given to whoever asks again
            with pytest.raises(HeadscopeError, match="site 0"):
                look.statistics("0")
