"""Edits count where they say, and only there: at any site, in any order, in every text and step of generation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

import headscope
from headscope import ablate, force, knock_out, patch, path, scale
from headscope.errors import EditError
from headscope.heads.edits.edit import Edit, Edits
from headscope.models.decoding import Decoder
from headscope.scope import Scope
from tests.heads.explain.families import FAMILIES, IDS, ROPE
from tests.models import tiny

SMALL = {
    "vocab_size": 97, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2,
}  # fmt: skip
NEW = [5, 9, 11, 3, 17, 22]
CROSS = "decoder.1.cross"


def windowed() -> PreTrainedModel:
    return tiny.build("MistralConfig", "MistralForCausalLM", **ROPE, sliding_window=6)


def two_sided(n_encoder: int = 12, n_decoder: int = 7) -> dict[str, Tensor]:
    return {"input_ids": IDS[:, :n_encoder], "decoder_input_ids": IDS[:, :n_decoder]}


MODELS: dict[str, tuple[Callable[[], PreTrainedModel], str, Any, Any]] = {
    "sliding window": (windowed, "1", IDS[0].tolist(), IDS[0].flip(0).tolist()),
    "cross-attention": (FAMILIES["t5"], CROSS, two_sided(), {key: ids.flip(1) for key, ids in two_sided().items()}),
}

EDITS: dict[str, Callable[[Scope, str, Any], Edit]] = {
    "knock_out": lambda scope, head, other: knock_out(head, 6, 1),
    "knock_out of a later arrow": lambda scope, head, other: knock_out(head, 12, 9),
    "patch": lambda scope, head, other: patch(head, [2, 5], scope.look(other)),
    "resample": lambda scope, head, other: ablate(head, how="resample", texts=[other]),
    "path": lambda scope, head, other: ablate(path("embedding", head, into="k")),
    "path of an arrow": lambda scope, head, other: ablate(path("embedding", head, into="k", query=12, key=9)),
}


@pytest.fixture
def t5() -> Iterator[Scope]:
    with headscope.load(FAMILIES["t5"]()) as scope:
        yield scope


@pytest.fixture
def llama() -> Iterator[Scope]:
    with headscope.load(FAMILIES["llama"]()) as scope:
        yield scope


def stepwise(scope: Scope, text: Any, edit: Edit) -> list[Tensor]:
    """The logits after a text and after each of the new tokens, generated with the model's own KV cache."""
    edits = Edits(scope.model, [edit.bind(scope.model)])
    decoder = Decoder(scope.model, scope.model.prepare(text).inputs, edits.attend, edits.during)
    return [decoder.first(), *map(decoder.feed, NEW)]


def so_far(text: Any, count: int) -> Any:
    """A text with the first new tokens."""
    if isinstance(text, list):
        return text + NEW[:count]
    return {**text, "decoder_input_ids": torch.cat((text["decoder_input_ids"], torch.tensor([NEW[:count]]).long()), 1)}


def assert_same_in_steps(scope: Scope, text: Any, edit: Edit, first: int = 0) -> None:
    """Before position ``first`` there is nothing to edit."""
    for count, logits in enumerate(stepwise(scope, text, edit)):
        now = so_far(text, count)
        length = len(now) if isinstance(now, list) else now["decoder_input_ids"].shape[1]
        with scope.edit(*[edit] * (length > first)):
            torch.testing.assert_close(logits, scope.look(now).logits[-1], atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("edit", EDITS)
def test_generating_under_an_edit_gives_the_logits_of_reading_the_text_so_far(model: str, edit: str) -> None:
    build, site, text, other = MODELS[model]
    with headscope.load(build()) as scope:
        first = 12 if edit in ("knock_out of a later arrow", "path of an arrow") else 0
        assert_same_in_steps(scope, text, EDITS[edit](scope, f"{site}.1", other), first)


PAST: dict[str, tuple[Callable[[Scope], Edit], str]] = {
    "query": (
        lambda llama: knock_out("1.1", 5, 2),
        "knock_out() at query 5, key 2 of 1.1: this text has the",
    ),
    "key": (
        lambda llama: knock_out("1.1", 4, 7),
        "knock_out() at query 4, key 7 of 1.1: this text has the",
    ),
    "a path's query": (
        lambda llama: ablate(path("embedding", "1.1", into="q", query=5)),
        "a path at query 5 of 1.1: this text has the",
    ),
    "a path's key": (
        lambda llama: ablate(path("embedding", "1.1", query=4, key=7)),
        "a path at query 4, key 7 of 1.1: this text has the",
    ),
    "patch": (lambda llama: patch("1.1", [2, 9], llama.look(IDS[0])), "patch() at positions [9]: this text has the"),
    "mlp": (lambda llama: patch("mlp_out 0", 9, llama.look(IDS[0])), "patch() at positions [9]: this text has the"),
    "stream": (
        lambda llama: patch("resid_pre 1", 9, llama.look(IDS[0])),
        "patch() at positions [9]: this text has the",
    ),
}


@pytest.mark.parametrize("what", PAST)
def test_an_edit_past_the_text_is_refused_in_a_look_and_waits_in_generation(llama: Scope, what: str) -> None:
    build, message = PAST[what]
    ids = IDS[0, :5].tolist()
    with llama.edit(build(llama)):
        assert len(llama.generate(ids, 2).tokens) == 2
        for texts in (ids, [ids, IDS[0].tolist()]):
            with pytest.raises(EditError, match=f"^{re.escape(message)}"):
                llama.look(texts)


def test_a_path_at_the_last_query_and_key_of_a_text_is_cut(llama: Scope) -> None:
    ids = IDS[0, :5].tolist()
    whole = llama.look(ids).pattern("1.1")
    with llama.edit(ablate(path("embedding", "1.1", query=4, key=4))):
        found = llama.look(ids).pattern("1.1")
    torch.testing.assert_close(found[:4], whole[:4])
    assert not torch.allclose(found[4], whole[4])


def test_an_arrow_of_cross_attention_is_knocked_out_at_its_query_and_key(t5: Scope) -> None:
    whole = t5.look(two_sided()).pattern(f"{CROSS}.1")
    with t5.edit(knock_out(f"{CROSS}.1", 1, 3)):
        found = t5.look(two_sided()).pattern(f"{CROSS}.1")
    expected = whole.clone()
    expected[1, 3] = 0.0
    torch.testing.assert_close(found, expected / expected.sum(-1, keepdim=True))


def test_a_head_of_cross_attention_is_patched_at_the_decoder_s_position(t5: Scope) -> None:
    text, other = two_sided(5, 9), {key: ids.flip(1) for key, ids in two_sided(5, 9).items()}
    source, whole = t5.look(other), t5.look(text).z(CROSS)
    with t5.edit(patch(f"{CROSS}.1", 7, source)):
        found = t5.look(text).z(CROSS)
    expected = whole.clone()
    expected[1, 7] = source.z(CROSS)[1, 7]
    torch.testing.assert_close(found, expected)
    with (
        pytest.raises(EditError, match=r"positions \[9\]: the look it takes from has positions 0–8"),
        t5.edit(patch(f"{CROSS}.1", 9, source)),
    ):
        pass


@pytest.mark.parametrize(("n_encoder", "n_decoder"), [(12, 7), (5, 9)])
def test_cross_attention_is_forced_by_queries_and_keys(t5: Scope, n_encoder: int, n_decoder: int) -> None:
    text = two_sided(n_encoder, n_decoder)
    onto_second = torch.zeros(n_decoder, n_encoder)
    onto_second[:, 1] = 1.0
    with t5.edit(force("decoder.0.cross.2", onto_second)):
        z = t5.look(text).z("decoder.0.cross")[2]
    torch.testing.assert_close(z, z[:1].expand_as(z))


def test_a_forced_row_that_reaches_past_the_text_is_refused() -> None:
    uniform = torch.full((12, 12), 1 / 12)
    with headscope.load(FAMILIES["bert"]()) as scope, scope.edit(force("0.1", uniform)):
        scope.look(IDS[0].tolist())
        with pytest.raises(EditError, match=r"row 0 of the forced pattern has 0.583 of its weight on keys that are"):
            scope.look(IDS[0, :5].tolist())


@pytest.mark.parametrize(
    "edit", [ablate(f"{CROSS}.1", how="mean"), ablate(path("embedding", f"{CROSS}.1", into="k"))], ids=["mean", "path"]
)
def test_a_text_under_an_edit_of_cross_attention_does_not_depend_on_the_text_before(t5: Scope, edit: Edit) -> None:
    with t5.edit(edit):
        alone = t5.look(two_sided()).logits
    with t5.edit(edit):
        t5.look(two_sided(5, 9))
        after = t5.look(two_sided()).logits
    torch.testing.assert_close(after, alone)


def test_a_layer_of_one_token_is_patched_after_a_longer_text_too(llama: Scope) -> None:
    edit = patch("resid_pre 1", 0, llama.look([7, 8]))
    with llama.edit(edit):
        alone = llama.look([5]).logits
    with llama.edit(edit):
        llama.look(IDS[0].tolist())
        after = llama.look([5]).logits
    torch.testing.assert_close(after, alone)


def test_the_last_mlp_of_an_encoder_is_patched_at_the_encoder_s_positions(t5: Scope) -> None:
    text, other = two_sided(), {key: ids.flip(1) for key, ids in two_sided().items()}
    module = t5.model.model.encoder.block[1].layer[1].DenseReluDense
    kept: list[Tensor] = []
    hook = module.register_forward_hook(lambda module, args, output: kept.append(output.clone()))
    source = t5.look(other)
    hook.remove()

    def put(module: Any, args: Any, output: Tensor) -> Tensor:
        output = output.clone()
        output[:, 9] = kept[0][:, 9]
        return output

    hook = module.register_forward_hook(put)
    wanted = t5.look(text).logits
    hook.remove()
    with t5.edit(patch("mlp_out encoder.1", 9, source)):
        torch.testing.assert_close(t5.look(text).logits, wanted)
    assert not torch.allclose(t5.look(text).logits, wanted)
    message = r"positions \[12\]: the look it takes from has positions 0–11"
    with pytest.raises(EditError, match=message), t5.edit(patch("mlp_out encoder.1", 12, source)):
        pass


def values_of_1_1(scope: Scope, ids: list[int]) -> Tensor:
    """The values that head 1.1 reads, of a layer that no edit below changes."""
    seen: dict[str, Tensor] = {}

    def note(site: str, call: Any, z: Tensor) -> Tensor:
        seen[site] = call.v[0, 1 // (call.q.shape[1] // call.v.shape[1])]
        return z

    with scope.edit(note):
        scope.look(ids)
    return seen["1"]


def test_a_knocked_out_arrow_and_a_cut_path_of_one_head_both_count(llama: Scope) -> None:
    ids, cut = IDS[0].tolist(), ablate(path("0.2", "1.1", into="k"))
    v = values_of_1_1(llama, ids)
    with llama.edit(cut, knock_out("1.1", 9, 4)):
        found = llama.look(ids)
        assert found.pattern("1.1")[9, 4] == 0.0
        torch.testing.assert_close(found.z("1")[1], found.pattern("1.1") @ v)


def test_a_path_is_cut_before_z_is_changed_in_whatever_order_they_are_given(llama: Scope) -> None:
    ids, cut = IDS[0].tolist(), ablate(path("0.2", "1.1", into="k"))
    with llama.edit(cut):
        alone = llama.look(ids).z("1")[1]
    with llama.edit(scale("1.1", 3.0), cut):
        torch.testing.assert_close(llama.look(ids).z("1")[1], 3.0 * alone)


def test_the_pattern_of_a_cut_path_is_exact_in_float64() -> None:
    ids = IDS[0].tolist()
    with headscope.load(FAMILIES["llama"]().double()) as scope:
        v = values_of_1_1(scope, ids)
        with scope.edit(ablate(path("0.2", "1.1", into="k"))):
            found = scope.look(ids)
            torch.testing.assert_close(found.z("1")[1], found.pattern("1.1") @ v, atol=1e-11, rtol=1e-11)


def test_blocks_in_generators_end_in_any_order_and_leave_no_edit_behind(llama: Scope) -> None:
    ids = IDS[0].tolist()
    whole = llama.look(ids).logits

    def reading(head: str) -> Iterator[Tensor]:
        with llama.edit(ablate(head)):
            while True:
                yield llama.look(ids).logits

    first, second = reading("0.1"), reading("1.2")
    next(first)
    next(second)
    first.close()  # type: ignore[attr-defined]
    with llama.edit(ablate("1.2")):
        torch.testing.assert_close(next(second), llama.look(ids).logits)
    second.close()  # type: ignore[attr-defined]
    assert torch.equal(llama.look(ids).logits, whole)
