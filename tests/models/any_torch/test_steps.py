"""The steps of a denoiser: each is the call that the run made, with patches and words labelled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.models.any_torch.modules import Denoiser, Gpt, denoise, ids

import headscope
from headscope.app.pages.media.shown import head_map, media_info, picture_of, token_streams
from headscope.errors import InputError
from headscope.models.inputs.media_positions import ShownPicture
from headscope.scope import Scope

WORDS = ("a", "red", "horse", "runs", ".")


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    torch.manual_seed(0)
    with headscope.load(Denoiser().eval(), inputs=denoise) as opened:
        yield opened


def test_a_step_is_the_call_that_the_run_made(scope: Scope) -> None:
    model, seen = scope.model.model, []
    hook = model.register_forward_hook(lambda _, args, output: seen.append((args[0].clone(), output.detach())))
    with torch.no_grad():
        denoise(model)
    hook.remove()
    steps = scope.steps(denoise)
    assert steps.names == ("step 0, timestep 200", "step 1, timestep 100", "step 2, timestep 0")
    for at, (sample, output) in enumerate(seen):
        assert torch.equal(steps[at].prepared.inputs["sample"], sample[1:])  # as it was before the next step
        torch.testing.assert_close(steps[at].logits, output[1].flatten(1).T)
    first = scope.steps(denoise, headscope.StepOptions(item=0))
    torch.testing.assert_close(first[2].logits, seen[2][1][0].flatten(1).T)


def test_steps_are_named_by_number_and_by_time(scope: Scope) -> None:
    steps = scope.steps(denoise)
    for name in ("step 1, timestep 100", "timestep 100", 1, -2):
        assert torch.equal(steps[name].logits, steps[1].logits)
    assert [len(look.tokens) for look in steps[1:]] == [48, 48]
    with pytest.raises(InputError, match=r"'timestep 7' names 0 steps; there are step 0, timestep 200, step 1"):
        steps["timestep 7"]
    with pytest.raises(IndexError, match=r"step 3: there are 3, 0–2"):
        steps[3]


def test_every_site_has_the_patches_of_its_own_grid_and_reads_words(scope: Scope) -> None:
    look = scope.steps(denoise, headscope.StepOptions(words=WORDS))[0]
    for site, count, last in (("fine", 48, "patch 5,7"), ("coarse", 12, "patch 2,3")):
        for part in (f"{site}.0", f"{site}.1"):
            queries = look.query_tokens(part)
            assert (len(queries), queries[-1].text) == (count, last)
        assert look.key_tokens(f"{site}.0") == look.query_tokens(f"{site}.0")
        assert [token.text for token in look.key_tokens(f"{site}.1")] == list(WORDS)
    drawn = head_map(look, "coarse.0.2", "patch 1,2")
    torch.testing.assert_close(torch.from_numpy(drawn.weights).flatten(), look.pattern("coarse.0.2")[6])


def test_the_latents_are_shown_or_what_is_made_of_them(scope: Scope) -> None:
    look = scope.steps(denoise)[0]
    info, arrays = media_info(look, token_streams(look).tokens)
    assert info is not None
    assert "the 4 channels that the model reads" in info.note
    assert arrays["picture"].shape == (6, 8, 3)
    assert {(grid.rows, grid.columns) for grid in info.grids.values()} == {(6, 8), (3, 4)}
    red = torch.zeros(1, 3, 12, 16)
    red[:, 0] = 1
    shown = picture_of(scope.steps(denoise, headscope.StepOptions(picture=lambda tensors: red))[0])
    assert isinstance(shown, ShownPicture)
    assert shown.pixels.shape == (12, 16, 3)
    assert shown.pixels[..., 0].min() > shown.pixels[..., 1].max()


def test_edits_hold_in_the_run_and_in_its_looks(scope: Scope) -> None:
    plain = scope.steps(denoise)
    with scope.edit(headscope.ablate("coarse.1.0")):
        edited = scope.steps(denoise)
    assert torch.equal(edited[0].prepared.inputs["sample"], plain[0].prepared.inputs["sample"])
    assert not torch.allclose(edited[0].logits, plain[0].logits)
    assert not torch.equal(edited[1].prepared.inputs["sample"], plain[1].prepared.inputs["sample"])
    again = scope.steps(denoise)
    assert torch.equal(again[2].logits, plain[2].logits)


def test_what_has_no_steps_is_refused(scope: Scope) -> None:
    with pytest.raises(InputError, match="the function did not call Denoiser"):
        scope.steps(lambda: None)
    with pytest.raises(InputError, match=r"item=2: the module is called with a batch of 2"):
        scope.steps(denoise, headscope.StepOptions(item=2))
    with headscope.load() as text, pytest.raises(InputError, match=r"steps are of a module that was opened with load"):
        text.steps(lambda: None)
    with headscope.load(Gpt().eval(), inputs=ids()) as gpt:
        assert gpt.steps(lambda model: model(ids())).names == ("step 0",)
