"""Whatever a look may keep, it answers the same; what it keeps stays within its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.heads.conftest import small_llama
from torch import Tensor

import headscope
from headscope import ablate
from headscope.attention.questions import Question
from headscope.heads.edits.edit import Edits
from headscope.heads.look import activation_cache as module
from headscope.heads.look.activation_cache import ActivationCache
from headscope.scope import Scope


def nothing_asked(*_: Any) -> dict[str, Question]:
    return {}


def passes(scope: Scope, ids: list[int], *edits: Any) -> ActivationCache:
    return ActivationCache(
        scope.model, scope.model.prepare(ids).inputs, Edits(scope.model, [each.bind(scope.model) for each in edits])
    )


def answers(scope: Scope, ids: list[int], *edits: Any) -> tuple[dict[str, Tensor], int]:
    """Everything that can be asked of the passes of a text, and how many bytes they hold in the end."""
    made = passes(scope, ids, *edits)
    made.read(nothing_asked)
    found = {"logits": made.logits}
    sites = list(scope.shape.sites)
    for site in sites:
        source = made.source(site)
        found |= {f"q {site}": source.q, f"k {site}": source.k, f"lse {site}": source.logsumexp}
        found[f"z {site}"] = made.recompute(site)[2]
        found[f"entropy {site}"] = made.site(site).rows.entropy
    return found, held(made)


def held(made: ActivationCache) -> int:
    """Bytes of all that is kept, counted one by one."""
    tensors = [
        *(part for site, z in made._z.items() for part in (z, made._unobserved[site].q, made._unobserved[site].k)),
        *(part for seen in made.sites.values() for part in (*(seen.kept or ()), seen.rows.output)),
    ]
    given = [] if made._layers is None else made._layers.outputs.values()
    tensors += [part for each in given for part in (each if isinstance(each, tuple) else (each,))]
    return sum(part.numel() * part.element_size() for part in tensors if isinstance(part, Tensor))


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.9])
def test_any_budget_gives_the_same_answers_and_is_kept(
    scope: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch, share: float, edited: bool
) -> None:
    edits = (ablate("0.1", "1.2"),) if edited else ()
    whole, room = answers(scope, ids, *edits)
    monkeypatch.setattr(module, "BUDGET", int(share * room))
    lean, kept = answers(scope, ids, *edits)
    assert kept <= share * room
    assert lean.keys() == whole.keys()
    for name, value in whole.items():
        torch.testing.assert_close(lean[name], value, atol=2e-5, rtol=1e-4)


def test_a_prediction_observes_nothing_and_reaches_every_site(scope: Scope, ids: list[int]) -> None:
    made = passes(scope, ids)
    made.read(nothing_asked)
    assert made.sites == {}
    assert made.reached == {site: (len(ids), len(ids)) for site in scope.shape.sites}
    assert set(made.n_windows.values()) == {1}
    at_once = passes(scope, ids)
    at_once.at_once = True
    at_once.read(nothing_asked)
    torch.testing.assert_close(made.logits, at_once.logits, atol=2e-5, rtol=1e-4)
    assert list(at_once.sites) == list(scope.shape.sites)


def test_an_edit_is_in_force_in_every_kind_of_pass(llama: Scope, ids: list[int]) -> None:
    plain, edited = passes(llama, ids), passes(llama, ids, ablate("1.2"))
    for each in (plain, edited):
        each.read(nothing_asked)
    assert not torch.allclose(edited.logits_at(-1), plain.logits_at(-1))
    assert not edited.recompute("1")[2][:, 2].any()
    for site, same in (("0", True), ("2", False)):
        q, was = edited.source(site).q, plain.source(site).q
        assert torch.equal(q, was) == same, "what comes after is changed, what comes before is not"


IDS = [5, 9, 2, 7, 5, 9, 2, 7, 11, 3]


def test_logits_made_when_asked_are_those_of_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = small_llama(), []
    model.lm_head.register_forward_hook(lambda _module, _args, logits: rows.append(logits.shape[1]))
    with (
        headscope.load(model) as scope,
        scope.edit(ablate("0.1"), headscope.steer("mlp_out 1", torch.ones(model.config.hidden_size))),
    ):
        whole = scope.look(IDS)
        monkeypatch.setattr(module, "MOST_LOGITS", 100)
        rows.clear()
        look = scope.look(IDS)
        assert [each.token for each in look.predictions(3)] == [each.token for each in whole.predictions(3)]
        assert rows == [1, 1]  # of the look, and of the position that was asked about
        for place in (0, 4, -1):
            torch.testing.assert_close(look.cache.logits_at(place), whole.logits[place])
        monkeypatch.setattr(module, "BUDGET", 0)  # the end of the stream is not kept either
        torch.testing.assert_close(scope.look(IDS).cache.logits_at(-2), whole.logits[-2])
        torch.testing.assert_close(look.logits, whole.logits)
        assert look.logit_attribution(11, 4).heads == pytest.approx(whole.logit_attribution(11, 4).heads, abs=1e-5)
        look.save(tmp_path / "x.headscope")
    assert headscope.open_look(tmp_path / "x.headscope").predictions(3) == whole.predictions(3)
