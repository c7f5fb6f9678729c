"""The Triton kernels in Triton's interpreter, on the CPU: small cases against the definition.

Collected by ``test_fused_interpreted.py`` in a process of its own, since Triton decides at import whether to interpret.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.attention.cases import CASES, Case, assert_within_twice, plain, truth
from tests.attention.expected import assert_statistics, questions
from tests.runs.interpreter import allow_one_element_bounds

from headscope.attention.backends.fused import host
from headscope.attention.backends.fused.layers import MOST_QUESTIONS, observe_layers
from headscope.attention.engine import observe, refusals
from headscope.attention.masks import causal
from headscope.attention.observation import Distance, Observation, Rows, Statistic, Strongest
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

allow_one_element_bounds()

SMALL = {"length-1", "d-head-17", "cross-short", "after-a-cache", "window-both-sides"}
SMALL |= {"padding-whole", "everything-composed", "softcap"}
FITTING = [replace(case, n_heads=2, n_kv_heads=1) for case in CASES if case.name in SMALL]
REFUSED = {case.name for case in CASES if host.refuse(*case.qkv(), case.scores.bind(*case.qkv()[:2]))}
GROUPED = Case("small-grouped", Scores(mask=causal()), 70, n_heads=4, n_kv_heads=2, d_head=24)


@pytest.mark.parametrize("case", [*FITTING, GROUPED], ids=lambda case: case.name)
def test_float32_equals_the_definition(case: Case) -> None:
    asked = questions(case.batch, case.n_query, case.keys)
    seen = observe(*case.qkv(), scores=case.scores, questions=asked, backend="fused")
    torch.testing.assert_close(seen.output, truth(case, torch.float32).output.float(), atol=3e-6, rtol=1e-5)
    assert_statistics(seen, case, atol=4e-6, dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16], ids=str)
def test_half_precision_errs_at_most_twice_as_much_as_plain_torch(dtype: torch.dtype) -> None:
    """float16 alone: the interpreter multiplies the bits of bfloat16, not its numbers."""
    seen = observe(*GROUPED.qkv(dtype), scores=GROUPED.scores, backend="fused")
    assert_within_twice(seen.output, truth(GROUPED, dtype).output, plain(GROUPED, dtype))


@pytest.mark.parametrize("asked", [set(), {"entropy"}, {"distance"}, {"strongest"}], ids=str)
def test_each_statistic_can_be_requested_alone(asked: set[Statistic]) -> None:
    whole = observe(*GROUPED.qkv(), scores=GROUPED.scores, backend="blockwise")
    seen = observe(*GROUPED.qkv(), scores=GROUPED.scores, statistics=asked, backend="fused")
    torch.testing.assert_close(seen.logsumexp, whole.logsumexp)
    if "entropy" in asked:
        torch.testing.assert_close(seen.entropy, whole.entropy, atol=1e-5, rtol=1e-5)
    if "distance" in asked:
        torch.testing.assert_close(seen.distance, whole.distance, atol=1e-3, rtol=1e-4)
    if "strongest" in asked:
        assert torch.equal(seen.strongest.key, whole.strongest.key)


def test_the_distance_is_exact_far_away() -> None:
    """All attention on two neighbouring keys 3,000 positions back, read after a smaller maximum close to the start."""
    n_key = 3000
    k = torch.zeros(1, 1, n_key, 16)
    k[..., 2, 0], k[..., 70:72, 0] = 20.0, 60.0
    q = torch.zeros(1, 1, 2, 16)
    q[..., 0] = 1.0
    seen = observe(q, k, torch.randn_like(k), scores=Scores(mask=causal(), scale=1.0), backend="fused")
    torch.testing.assert_close(seen.distance.mean[0, 0], torch.tensor([n_key - 2 - 70.5, n_key - 1 - 70.5]))
    torch.testing.assert_close(seen.distance.std[0, 0], torch.full((2,), 0.5), atol=1e-3, rtol=0)


def test_transposed_tensors_are_read_without_a_copy() -> None:
    q, k, v = (tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in GROUPED.qkv())
    seen = observe(q, k, v, scores=GROUPED.scores, backend="fused")
    torch.testing.assert_close(seen.output, truth(GROUPED, torch.float32).output.float(), atol=3e-6, rtol=1e-5)


def test_many_labels_take_the_groups_path() -> None:
    tokens = torch.arange(70) % 23
    asked = {"same": Question(tokens, tokens, exclude_self=True), "before": Question(tokens, tokens.roll(1))}
    exact = observe(*GROUPED.qkv(), scores=GROUPED.scores, questions=asked, backend="dense")
    seen = observe(*GROUPED.qkv(), scores=GROUPED.scores, questions=asked, backend="fused")
    for name in asked:
        torch.testing.assert_close(seen.mass[name], exact.mass[name], atol=3e-6, rtol=1e-5)


def test_the_interpreter_refuses_what_a_gpu_would() -> None:
    assert {"fully-masked-row", "any-mask", "alibi", "relative", "dense-bias", "sinks", "all-of-it"} <= REFUSED
    q, k, v = GROUPED.qkv()
    assert refusals(q, k, v, GROUPED.scores)["fused"] is None


@pytest.mark.parametrize("case", [*FITTING, GROUPED], ids=lambda case: case.name)
def test_two_layers_together_equal_the_definition(case: Case) -> None:
    """The second layer's queries and keys are the first's, so both have the statistics of the case."""
    asked = questions(case.batch, case.n_query, case.keys)
    q, k, _ = case.qkv()
    bound = case.scores.bind(q, k)
    rows = observe_layers(torch.cat((q, q)), torch.cat((k, k)), bound, asked)
    z = truth(case, torch.float32).output.float()
    for layer in (slice(None, case.batch), slice(case.batch, None)):
        seen = Observation(one_layer(rows, layer, z), "layers", q, k, bound)
        assert_statistics(seen, case, atol=4e-6, dtype=torch.float32)


def one_layer(rows: Rows, items: slice, z: torch.Tensor) -> Rows:
    assert rows.entropy is not None
    assert rows.distance is not None
    assert rows.strongest is not None
    return Rows(
        z, rows.logsumexp[items], rows.entropy[items], Distance(*(part[items] for part in rows.distance)),
        Strongest(*(part[items] for part in rows.strongest)), {name: mass[items] for name, mass in rows.mass.items()},
    )  # fmt: skip


def test_many_questions_are_asked_in_parts() -> None:
    position = torch.arange(70)
    asked = {f"{n} back": Question(position - n, position) for n in range(MOST_QUESTIONS + 3)}
    q, k, v = GROUPED.qkv()
    rows = observe_layers(q, k, GROUPED.scores.bind(q, k), asked)
    exact = observe(q, k, v, scores=GROUPED.scores, questions=asked, backend="dense")
    assert list(rows.mass) == list(asked)
    torch.testing.assert_close(rows.mass, dict(exact.mass), atol=3e-6, rtol=1e-5)


def test_the_label_minus_one_matches_nothing() -> None:
    """Not even a key with the label −1, in the tile of its row and in others."""
    labels = torch.tensor([-1, 5] * 35)
    q, k, v = GROUPED.qkv()
    asked = {"own": Question(labels, labels), "other": Question(labels, labels, exclude_self=True)}
    rows = observe_layers(q, k, GROUPED.scores.bind(q, k), asked)
    exact = observe(q, k, v, scores=GROUPED.scores, questions=asked, backend="dense")
    assert rows.mass["own"][:, :, ::2].eq(0).all()
    assert rows.mass["own"][:, :, 1::2].gt(0).all()
    torch.testing.assert_close(rows.mass, dict(exact.mass), atol=3e-6, rtol=1e-5)
