"""Roles that cannot be put to a model are not tested, with the reason."""

from __future__ import annotations

import torch
from tests.models import tiny
from tests.models.any_torch.modules import Vit, picture

import headscope
from headscope.heads.roles.run import RoleOptions


def test_a_speech_model_has_no_role_tested() -> None:
    with headscope.load(tiny.whisper(), tiny.tokenizer()) as scope:
        report = scope.heads(RoleOptions(inputs=8))
        assert report.findings == ()
        assert {trial.why_not for trial in report.trials} == {
            f"probes are texts: {scope.shape.name} reads sound, not text"
        }


def test_a_module_of_pictures_has_no_role_tested() -> None:
    torch.manual_seed(0)
    with headscope.load(Vit(), inputs=picture()) as scope:
        report = scope.heads(RoleOptions(inputs=8))
        assert report.findings == ()
        assert all("probes are texts" in str(trial.why_not) for trial in report.trials)


def test_a_model_of_pictures_and_texts_says_why() -> None:
    with headscope.load(tiny.clip(), tiny.tokenizer()) as scope:
        reasons = {trial.why_not for trial in scope.heads(RoleOptions(inputs=8)).trials}
    assert reasons == {"probes are texts, and this model does not run on a text alone"}
