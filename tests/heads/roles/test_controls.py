"""Positive and negative controls: each role is earned by the model written for it, and none by random weights."""

from __future__ import annotations

import pytest
import torch
import transformers
from tests.heads.controls import CONTROLS, opened, random_model
from tests.lab.by_hand import ROLES as BY_HAND
from tests.lab.by_hand import by_hand

from headscope.heads.roles.battery import ROLES
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.report import Report
from headscope.heads.roles.run import RoleOptions, run_battery, shuffled_weights
from headscope.heads.roles.trials import make_probes, measure_roles, score_effects
from headscope.models.loading import open_model
from headscope.models.native import NativeModel

QUICK = RoleOptions(controls=0, ablate=0)


def roles_of(report: Report) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in report.findings:
        found.setdefault(finding.head, set()).add(finding.role)
    return found


@pytest.mark.parametrize("role", BY_HAND)
def test_a_model_of_tokens_written_for_a_role_earns_it_and_no_other(role: str) -> None:
    model = NativeModel(by_hand(role), None, role)
    plays = {"0.0": {"previous token"}, "1.0": {"induction", "copying"}} if role == "induction" else {"0.0": {role}}
    assert roles_of(run_battery(model, RoleOptions(inputs=16, controls=0, ablate=0, separators=(1, 2)))) == plays


LONG = {"giving", "giving, negative", "retrieval", "verb to subject"}
"""Two seconds each: make test leaves them to make test-all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in CONTROLS]
)
def test_a_model_of_words_written_for_a_role_earns_it_and_no_other(name: str) -> None:
    control = CONTROLS[name]
    with torch.no_grad():
        model = opened(control.make().eval())
    assert roles_of(run_battery(model, QUICK)) == control.plays


@pytest.mark.parametrize(("shift", "role"), [(0, "alignment"), (1, "alignment ahead")])
def test_a_cross_attention_head_that_finds_its_own_word_is_aligned(shift: int, role: str) -> None:
    model = open_model(translator(shift), name="translator")
    report = run_battery(model, QUICK)
    assert roles_of(report) == {"encoder.0.0": {"previous token"}, "decoder.0.cross.0": {role}}
    assert not report.trial("copying").tested


def translator(shift: int) -> transformers.PreTrainedModel:
    """One layer each side, one-hot words. The encoder adds to each word the one before, which ``shift`` asks for."""
    size = 128
    config = transformers.T5Config(
        vocab_size=size, d_model=2 * size, d_kv=2 * size, d_ff=4, num_layers=1, num_decoder_layers=1, num_heads=1,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, dropout_rate=0.0, tie_word_embeddings=False,
        relative_attention_num_buckets=8, relative_attention_max_distance=8,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval().requires_grad_(False)
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.zero_()
    one = torch.eye(size)
    model.shared.weight[:, :size] = one
    encoder = model.encoder.block[0].layer[0].SelfAttention
    encoder.relative_attention_bias.weight[1] = 30.0  # bucket 1: one place back
    encoder.v.weight[:size, :size] = one
    encoder.o.weight[size:, :size] = one
    cross = model.decoder.block[0].layer[1].EncDecAttention
    cross.q.weight[:size, :size] = one
    cross.k.weight[:size, (shift * size) : (shift + 1) * size] = one
    cross.v.weight[:size, :size] = one
    cross.o.weight[:size, :size] = one
    model.lm_head.weight[:, :size] = one
    return model


@pytest.mark.slow
def test_random_and_shuffled_weights_earn_no_role() -> None:
    """A hundred redraws: random weights, some of them sharp, and shuffled ones; the same probes for all."""
    roles = [role for role in ROLES if role.probe.name != "needle"]
    probes = make_probes(Vocabulary(random_model(0)), roles, 16, 0)
    sharp = random_model(3)
    named = 0
    for seed in range(50):
        with shuffled_weights(sharp, seed):
            for model in (random_model(seed), sharp):
                trials = measure_roles(model, roles, probes, 0.01)
                score_effects(model, trials, 0.01)
                named += any(bool(each.any()) for each in trials.named(0.01).values())
    assert named <= 2
