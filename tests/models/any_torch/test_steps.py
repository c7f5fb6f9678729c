"""The steps of a denoiser: each is the call that the run made, with patches and words labelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.models.any_torch.modules import Denoiser, Gpt, denoise, ids

import headscope
from headscope.app.pages.media.head_map import head_map
from headscope.app.pages.media.shown import media_info, picture_of
from headscope.app.pages.media.streams import token_streams
from headscope.errors import InputError
from headscope.models.any_torch.arguments import Arguments
from headscope.models.any_torch.steps import _Copies, _names, _numbers, _one_item
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


def test_a_copy_is_the_tensor_as_it_was_and_is_made_once() -> None:
    copies, value = _Copies(), torch.zeros(3)
    first = copies.of(value)
    assert copies.of(value) is first
    value += 1
    second = copies.of(value)
    assert (first.tolist(), second.tolist()) == ([0.0] * 3, [1.0] * 3)
    assert copies.of("text") == "text"
    with torch.inference_mode():
        inside = torch.zeros(2)
        before = copies.of(inside)
        inside += 1
        assert (before.tolist(), copies.of(inside).tolist()) == ([0.0] * 2, [1.0] * 2)


@pytest.mark.parametrize("item", [-2, -1, 0, 1])
def test_one_item_of_a_call_is_taken_from_what_has_its_batch(item: int) -> None:
    x, time, table = torch.arange(6).view(2, 3), torch.tensor(5), torch.arange(12).view(3, 4)
    (one, (scalar, word)), named = _one_item(((x, (time, "a")), {"table": table, "pair": x + 1}), item)
    assert one.tolist() == [x[item].tolist()]
    assert named["pair"].tolist() == [(x[item] + 1).tolist()]
    assert (scalar is time, word, named["table"] is table) == (True, "a", True)


def test_an_item_that_a_call_does_not_have_is_refused() -> None:
    x = torch.zeros(2, 3)
    for item in (-3, 2):
        with pytest.raises(InputError, match=f"item={item}: the module is called with a batch of 2"):
            _one_item(((x,), {}), item)
    assert _one_item(((3,), {}), 0) == ((3,), {})
    with pytest.raises(InputError, match=r"item=1: the module is called with a batch of 1\n"):
        _one_item(((3,), {}), 1)


@pytest.mark.parametrize(
    ("tensors", "others", "found"),
    [
        ({"t": torch.tensor(3)}, {}, {"t": 3.0}),
        ({"t": torch.tensor([3.5, 3.5])}, {"scale": 2, "name": "x"}, {"scale": 2.0, "t": 3.5}),
        ({"t": torch.tensor([3.0, 4.0])}, {}, {}),
        ({"t": torch.zeros(0)}, {}, {}),
        ({"t": torch.ones(2, 2)}, {}, {}),
    ],
)
def test_numbers_of_a_call_are_the_same_for_every_item(tensors: Any, others: Any, found: dict[str, float]) -> None:
    assert _numbers(Arguments(tensors, others)) == found


def test_steps_are_named_by_the_first_number_that_changes() -> None:
    calls = [Arguments(others={"scale": 7, "time": time, "later": time}) for time in (900, 0.5)]
    assert _names(calls) == ["step 0, time 900", "step 1, time 0.5"]
    assert _names([Arguments(others={"scale": 7})] * 2) == ["step 0", "step 1"]
    some = [Arguments(others={"time": 3}), Arguments()]
    assert _names(some) == ["step 0, time 3", "step 1"]
    assert _names([Arguments({"time": torch.tensor(n)}) for n in (2, 1)]) == ["step 0, time 2", "step 1, time 1"]
