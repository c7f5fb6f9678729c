"""Whatever a look may keep, it answers the same; what it keeps stays within its budget."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

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
    found = {"logits": made.read(nothing_asked)}
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
    logits = made.read(nothing_asked)
    assert made.sites == {}
    assert made.reached == {site: (len(ids), len(ids)) for site in scope.shape.sites}
    assert set(made.n_windows.values()) == {1}
    at_once = passes(scope, ids)
    at_once.at_once = True
    torch.testing.assert_close(logits, at_once.read(nothing_asked), atol=2e-5, rtol=1e-4)
    assert list(at_once.sites) == list(scope.shape.sites)


def test_an_edit_is_in_force_in_every_kind_of_pass(llama: Scope, ids: list[int]) -> None:
    plain, edited = passes(llama, ids), passes(llama, ids, ablate("1.2"))
    for each in (plain, edited):
        each.read(nothing_asked)
    assert not torch.allclose(edited.read(nothing_asked), plain.read(nothing_asked))
    assert not edited.recompute("1")[2][:, 2].any()
    for site, same in (("0", True), ("2", False)):
        q, was = edited.source(site).q, plain.source(site).q
        assert torch.equal(q, was) == same, "what comes after is changed, what comes before is not"
