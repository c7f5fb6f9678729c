"""Edits do what doing it by hand does, compose, nest, and leave nothing behind."""

import threading
from collections.abc import Callable

import pytest
import torch
from tests.models import tiny

import headscope
from headscope import ablate, force, knock_out, patch, scale
from headscope.attention.observer import Call, plain
from headscope.errors import EditError, HeadNameError, InputError
from headscope.heads.edits.edit import Edit
from headscope.heads.look.sampling import Sampling
from headscope.scope import Scope


def by_hand(scope: Scope, ids: list[int], change: Callable[[str, Call, torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Logits when z is changed by a function written in the test."""

    def attend(site: str, call: Call) -> torch.Tensor:
        return change(site, call, plain(call).clone())

    with torch.no_grad():
        return scope.model.run(scope.model.prepare(ids).inputs, attend).logits[0]


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_zero_ablation_is_zeroing_the_heads_slice(scope: Scope, ids: list[int]) -> None:
    def change(site: str, call: Call, z: torch.Tensor) -> torch.Tensor:
        if site == "1":
            z[:, [0, 3]] = 0
        return z

    with scope.edit(ablate("1.0", "1.3")):
        close(scope.look(ids).logits, by_hand(scope, ids, change))


def test_mean_ablation_is_the_mean_over_this_text(scope: Scope, ids: list[int]) -> None:
    def change(site: str, call: Call, z: torch.Tensor) -> torch.Tensor:
        if site == "0":
            z[:, 2] = z[:, 2].mean(1, keepdim=True)
        return z

    with scope.edit(ablate("0.2", how="mean")):
        close(scope.look(ids).logits, by_hand(scope, ids, change))


def test_mean_ablation_over_reference_texts_uses_their_mean(llama: Scope, ids: list[int]) -> None:
    others = [ids[5:15], ids[2:9]]
    pool = torch.cat([llama.look(other).z("1")[4] for other in others])

    def change(site: str, call: Call, z: torch.Tensor) -> torch.Tensor:
        if site == "1":
            z[:, 4] = pool.mean(0)
        return z

    with llama.edit(ablate("1.4", how="mean", texts=others)):
        close(llama.look(ids).logits, by_hand(llama, ids, change))


def test_resampling_draws_real_deliveries_and_repeats_with_its_seed(llama: Scope, ids: list[int]) -> None:
    others = [ids[5:15], ids[2:9]]
    pool = torch.cat([llama.look(other).z("1")[4] for other in others])
    with llama.edit(ablate("1.4", how="resample", texts=others, seed=3)):
        first, again = llama.look(ids), llama.look(ids)
    close(first.logits, again.logits)
    gaps = torch.cdist(first.z("1")[4], pool).min(-1).values
    assert float(gaps.max()) < 1e-5
    with llama.edit(ablate("1.4", how="resample", texts=others, seed=4)):
        assert not torch.allclose(llama.look(ids).logits, first.logits)


def test_scaling_by_zero_is_ablation_and_by_one_is_nothing(llama: Scope, ids: list[int]) -> None:
    with llama.edit(ablate("2.1")):
        gone = llama.look(ids).logits
    with llama.edit(scale("2.1", 0.0)):
        close(llama.look(ids).logits, gone)
    with llama.edit(scale("2.1", 1.0)):
        close(llama.look(ids).logits, llama.look(ids).logits)


def test_patching_every_position_from_another_text_is_that_texts_delivery(llama: Scope, ids: list[int]) -> None:
    other = list(reversed(ids))
    source = llama.look(other)
    taken = source.z("1")[5]

    def change(site: str, call: Call, z: torch.Tensor) -> torch.Tensor:
        if site == "1":
            z[:, 5, [2, 7]] = taken[[2, 7]]
        return z

    with llama.edit(patch("1.5", [2, 7], source)):
        close(llama.look(ids).logits, by_hand(llama, ids, change))


def test_cutting_an_arrow_renormalises_the_row_without_it(scope: Scope, ids: list[int]) -> None:
    pattern = scope.look(ids).pattern("0.1")
    row = pattern[8].clone()
    row[3] = 0
    row = row / row.sum()

    def change(site: str, call: Call, z: torch.Tensor) -> torch.Tensor:
        if site == "0":
            z[:, 1, 8] = row @ call.v[0, 1 // (call.q.shape[1] // call.k.shape[1])]
        return z

    with scope.edit(knock_out("0.1", query=8, key=3)):
        close(scope.look(ids).logits, by_hand(scope, ids, change))


def test_arrows_of_one_row_are_hidden_together(scope: Scope, ids: list[int]) -> None:
    row = scope.look(ids).pattern("0.1")[8].clone()
    row[[3, 5]] = 0
    row = row / row.sum()

    def change(site: str, call: Call, z: torch.Tensor) -> torch.Tensor:
        if site == "0":
            z[:, 1, 8] = row @ call.v[0, 1 // (call.q.shape[1] // call.k.shape[1])]
        return z

    expected = by_hand(scope, ids, change)
    with scope.edit(knock_out("0.1", query=8, key=3), knock_out("0.1", query=8, key=5)):
        close(scope.look(ids).logits, expected)
    with scope.edit(knock_out("0.1", query=8, key=5)), scope.edit(knock_out("0.1", query=8, key=3)):
        close(scope.look(ids).logits, expected)


def test_a_look_shows_the_row_without_its_knocked_out_arrows(scope: Scope, ids: list[int]) -> None:
    expected = scope.look(ids).pattern("0.1").clone()
    expected[8, [3, 5]] = 0.0
    expected[8] /= expected[8].sum()
    with scope.edit(knock_out("0.1", query=8, key=3), knock_out("0.1", query=8, key=5)):
        look = scope.look(ids)
        close(look.pattern("0.1"), expected)
        row = expected[8][expected[8] > 0]
        close(look.statistics("0").entropy[0, 1, 8], -(row * row.log()).sum())


def test_an_ablated_head_stays_ablated_when_its_arrows_are_knocked_out(scope: Scope, ids: list[int]) -> None:
    with scope.edit(ablate("0.1")):
        ablated = scope.look(ids).logits
    with scope.edit(ablate("0.1"), knock_out("0.1", query=8, key=3)):
        close(scope.look(ids).logits, ablated)


def test_forcing_a_heads_own_pattern_changes_nothing(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    with scope.edit(force("1.2", look.pattern("1.2"))):
        close(scope.look(ids).logits, look.logits)


def test_edits_compose_nest_and_end(scope: Scope, ids: list[int]) -> None:
    before = scope.look(ids).logits
    with scope.edit(ablate("0.0"), ablate("1.1")):
        together = scope.look(ids).logits
    with scope.edit(ablate("0.0")), scope.edit(ablate("1.1")):
        close(scope.look(ids).logits, together)
    assert not torch.allclose(together, before)
    close(scope.look(ids).logits, before)


def test_two_threads_do_not_see_each_others_edits(llama: Scope, ids: list[int]) -> None:
    before, seen = llama.look(ids).logits, {}
    inside, finish = threading.Event(), threading.Event()

    def editor() -> None:
        with llama.edit(ablate("0.0", "1.0", "2.0")):
            inside.set()
            finish.wait(10)
            seen["edited"] = llama.look(ids).logits

    thread = threading.Thread(target=editor)
    thread.start()
    inside.wait(10)
    seen["plain"] = llama.look(ids).logits
    finish.set()
    thread.join()
    close(seen["plain"], before)
    assert not torch.allclose(seen["edited"], before)


@pytest.mark.parametrize("edit", [ablate("1.1"), knock_out("0.2", query=4, key=1), scale("0.3", 2.0)])
def test_generation_honours_edits_as_full_passes_do(scope: Scope, ids: list[int], edit: Edit) -> None:
    """Greedy decoding with the cache, against recomputing the whole text for every token."""
    with scope.edit(edit):
        made = scope.generate(ids, n_tokens=6)
        text = list(ids)
        for _ in range(len(made.tokens)):
            text.append(int(scope.look(text).logits[-1].argmax()))
    assert [token.id for token in made.tokens] == text[len(ids) :]


def test_sampling_repeats_with_its_seed_and_respects_its_cuts(llama: Scope, ids: list[int]) -> None:
    how = Sampling(temperature=1.5, top_k=5, top_p=0.9, seed=7)
    one, two = llama.generate(ids, 8, how), llama.generate(ids, 8, how)
    assert [t.id for t in one.tokens] == [t.id for t in two.tokens]
    for token, step in zip(one.tokens, one.steps, strict=True):
        assert step.top_p[token.id] > 0
        assert int((step.top_k > 0).sum()) <= 5
        assert float(step.top_p.sum()) == pytest.approx(1.0, abs=1e-5)


def test_edits_that_do_not_fit_are_rejected(llama: Scope, ids: list[int]) -> None:
    with pytest.raises(HeadNameError, match=r"7\.0: this model has layers 0–2"), llama.edit(ablate("7.0")):
        pass
    with pytest.raises(InputError, match=r"how='median' is not supported\. Use 'zero', 'mean' or 'resample'"):
        ablate("0.0", how="median")
    with pytest.raises(EditError, match="give them: ablate"):
        ablate("0.0", how="resample")
    with pytest.raises(EditError, match="names no head"):
        ablate()
    with pytest.raises(EditError, match=r"row 1 adds up to 0\.500"):
        force("0.0", torch.tensor([[1.0, 0.0], [0.25, 0.25]]))
    with pytest.raises(EditError, match=r"positions \[40\]"), llama.edit(patch("0.0", 40, llama.look(ids))):
        pass


RETURNED: dict[str, tuple[Callable[[torch.Tensor], object], str]] = {
    "nothing": (lambda z: None, "NoneType"),
    "one head": (lambda z: z[:, :1], r"torch\.float32 \(1, 1, \d+, 8\) on cpu"),
    "another dtype": (lambda z: z.double(), r"torch\.float64 \(1, 6, \d+, 8\) on cpu"),
}


@pytest.mark.parametrize("what", RETURNED)
def test_a_function_that_does_not_return_z_is_rejected(llama: Scope, ids: list[int], what: str) -> None:
    returns, named = RETURNED[what]

    def mine(site: str, call: Call, z: torch.Tensor) -> torch.Tensor:
        return returns(z) if site == "1" else z  # type: ignore[return-value]

    wanted = r"it has to return z, torch\.float32 \(1, 6, \d+, 8\) on cpu"
    message = rf"^the edit mine\(\) returned {named} at site 1; {wanted}"
    with llama.edit(mine):
        for ask in (lambda: llama.look(ids), lambda: llama.generate(ids, 1)):
            with pytest.raises(EditError, match=message):
                ask()


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("scan", lambda scope: scope.scan(["the horse crossed the road"])),
        ("heads", lambda scope: scope.heads()),
        ("prune", lambda scope: scope.prune(heads=["0.1"])),
        ("circuit", lambda scope: scope.circuit("induction")),
    ],
)
def test_what_measures_the_unedited_model_is_refused_under_edits(what: str, call: Callable[[Scope], object]) -> None:
    scope = headscope.load(tiny.llama(), tiny.tokenizer())
    with scope.edit(ablate("0.1")), pytest.raises(EditError, match=rf"scope.{what} measures .* in force \(1\)"):
        call(scope)
