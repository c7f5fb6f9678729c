"""NaN and infinity are found at load and in each pass, named by site; they never become a number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import headscope
from headscope.attention import Scores, causal, observe
from headscope.attention.questions import Question
from headscope.errors import InputError, ModelError
from headscope.models.finite import PassCheck, deferred_checks
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from tests.heads.conftest import small_gpt2, small_llama
from tests.scan.tiny import TinyModel, open_tiny

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("part", ["embed_tokens.weight", "layers.1.self_attn.q_proj.weight", "lm_head.weight"])
def test_a_model_with_a_weight_that_is_not_a_number_is_not_opened(part: str, value: float) -> None:
    model = small_llama()
    name, weight = next((name, weight) for name, weight in model.named_parameters() if name.endswith(part))
    with torch.no_grad():
        weight[1, 2] = value
    with pytest.raises(ModelError, match=rf"weights that are NaN or infinite: .*{name}"):
        headscope.load(model)


@pytest.mark.parametrize(
    ("part", "said"),
    [("layers.1.self_attn.v_proj", "the attention output of site 1 is NaN"), ("layers.2.mlp", "its logits are NaN")],
)
@pytest.mark.parametrize("after", [0, 2])
def test_no_token_is_generated_from_what_is_not_a_number(part: str, said: str, after: int) -> None:
    """From the first token on, or after some that were read with a KV cache."""
    with headscope.load(small_llama()) as scope:
        calls, scope.model.end_tokens = 0, frozenset()

        def spoil_later(_: nn.Module, args: object, output: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            return output if calls <= after else output * NAN

        hook = scope.model.model.model.get_submodule(part).register_forward_hook(spoil_later)
        for sampling in (None, headscope.Sampling(temperature=1.0)):
            calls = 0
            with pytest.raises(ModelError, match=said):
                scope.generate([5, 6, 7], 4, sampling)
            assert calls == after + 1
        hook.remove()
        assert len(scope.generate([5, 6, 7], 4).tokens) == 4


def test_a_native_model_with_such_a_weight_is_not_opened() -> None:
    model = open_tiny()
    model.close()
    with torch.no_grad():
        model.model.layers[1].k_proj.weight[0, 0] = NAN
    with pytest.raises(ModelError, match=r"NaN or infinite: layers\.1\.k_proj\.weight"):
        headscope.load(model.model)


def spoil(module: nn.Module, value: float) -> Callable[[], None]:
    """Let a module answer with one wrong number, as an overflow in half precision would."""

    def replace(_: nn.Module, args: object, output: torch.Tensor) -> torch.Tensor:
        output = output.clone()
        output.view(-1)[3] = value
        return output

    return module.register_forward_hook(replace).remove


@pytest.mark.parametrize("value", [NAN, INF])
def test_activations_that_overflow_are_named_by_their_site(value: float) -> None:
    with headscope.load(small_llama()) as scope:
        scope.look([5, 6, 7])
        mend = spoil(scope.model.model.model.layers[1].self_attn.v_proj, value)
        for work in (
            lambda: scope.look([5, 6, 7]),
            lambda: scope.look([[5, 6, 7], [8, 9]]),
            lambda: scope.importance([[5, 6, 7, 8]], how="gradient"),
            lambda: scope.importance([[5, 6, 7, 8]], how="exact"),
        ):
            with pytest.raises(ModelError, match=r"the attention output of site 1 is (NaN|infinite) for this input"):
                work()
        mend()
        scope.look([5, 6, 7])


def test_logits_that_overflow_are_refused() -> None:
    with headscope.load(small_gpt2()) as scope:
        spoil(scope.model.model.lm_head, INF)
        with pytest.raises(ModelError, match="its logits are infinite for this input"):
            scope.look([5, 6, 7])


def test_a_token_that_a_model_rules_out_is_not_an_overflow() -> None:
    check = PassCheck("model")
    check.see_logits(torch.tensor([[[0.0, -INF]]]))
    check.verify()
    check.see_logits(torch.full((1, 1, 2), -INF))
    with pytest.raises(ModelError, match="its logits are infinite"):
        check.verify()


def test_a_scan_stops_at_such_a_pass_and_makes_no_census(tmp_path: Path) -> None:
    model = open_tiny()
    spoil(model.model.layers[1].v_proj, NAN)
    with pytest.raises(ModelError, match="the attention output of site 1 is NaN"):
        scan(model, ["the cat sat on a mat"], out=tmp_path, options=ScanOptions(context=16, threads=1))
    assert not (tmp_path / "census.parquet").exists()


def test_a_pass_reads_its_flags_once() -> None:
    """Reading waits for a GPU: one tensor of all sites, after the last layer."""
    model, read = open_tiny(), []
    with deferred_checks() as pending:
        model.run({"input_ids": torch.tensor([[1, 2, 3]])})
    (check,) = pending
    check.z.read = lambda: read.append(dict(check.z.values)) or {}  # type: ignore[method-assign]
    check.verify()
    assert [list(each) for each in read] == [["0", "1"]]
    assert all(value.ndim == 0 for values in read[0].values() for value in values)


def test_flags_that_are_fetched_early_are_read_later() -> None:
    """A scan begins the copy of a batch's flags before it starts the next batch."""
    model = open_tiny()
    spoil(model.model.layers[1].v_proj, NAN)
    with deferred_checks() as pending:
        model.run({"input_ids": torch.tensor([[1, 2, 3]])})
    (check,) = pending
    plain = check.z.read()
    assert check.fetch() == set(), "they are on the CPU already"
    assert list(plain) == ["0", "1"]
    assert check.z.read()["0"] == plain["0"]
    with pytest.raises(ModelError, match="the attention output of site 1 is NaN"):
        check.verify()


@pytest.mark.parametrize("backend", ["blockwise", "dense"])
@pytest.mark.parametrize("value", [NAN, INF])
def test_statistics_of_such_rows_are_nan(backend: str, value: float) -> None:
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    q[0, 1, 3, 2] = value
    place = torch.arange(5)
    seen = observe(q, k, v, scores=Scores(mask=causal()), questions={"itself": Question(place, place)}, backend=backend)
    for got in (seen.entropy, seen.logsumexp, seen.mass["itself"], seen.strongest.weight, seen.output[..., 0]):
        assert not got[0, 1, 3].isfinite()
        assert got.isfinite().sum() == got.numel() - 1


@pytest.mark.parametrize("size", [1e7, 1e9])
def test_scores_whose_last_digit_decides_a_weight_are_exact_or_refused(size: float) -> None:
    q, k, v = (torch.randn(1, 1, 40, 16) for _ in range(3))
    q *= size
    with pytest.raises(InputError, match=r"attention scores reach .*e\+.*; in float32, weights are exact to 0.001 up"):
        observe(q, k, v, scores=Scores(mask=causal())).weights()
    wide = observe(q.double(), k.double(), v.double(), scores=Scores(mask=causal())).weights()
    assert wide.max() <= 1 + 1e-6
    torch.testing.assert_close(wide.sum(-1), torch.ones_like(wide.sum(-1)), rtol=0, atol=1e-5)


def test_pattern_with_such_scores_is_rejected_and_opens_in_float64() -> None:
    model = TinyModel()
    with torch.no_grad():
        model.layers[1].q_proj.weight.mul_(1e7)
    with headscope.load(model) as scope, pytest.raises(InputError, match=r"attention scores reach .*float64"):
        scope.look([5, 6, 7, 8]).pattern("1.1")
    with headscope.load(model.double()) as scope:
        weights = scope.look([5, 6, 7, 8]).pattern("1.1")
        torch.testing.assert_close(weights.sum(-1), torch.ones(4, dtype=weights.dtype), rtol=0, atol=1e-5)


def test_scores_that_float32_can_hold_are_not_refused() -> None:
    q, k, v = (torch.randn(1, 1, 40, 16) for _ in range(3))
    seen = observe(q * 1.5e3, k, v, scores=Scores(mask=causal()))
    assert 4_096 < seen.logsumexp.abs().max() < 8_192
    weights = seen.weights()
    assert weights.max() < 1.001
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)), rtol=0, atol=1e-3)
    with pytest.raises(InputError, match=r"exact to 0\.001 up to 8,192"):
        observe(q * 3e3, k, v, scores=Scores(mask=causal())).weights()
