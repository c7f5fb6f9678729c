"""Pruned models compared with ablated ones; saved folders open again, here and in plain transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import headscope
from headscope.errors import HeadNameError, InputError, ModelError
from headscope.heads.pruning import Pruned
from headscope.names import Head
from headscope.scope import Scope
from tests.heads.conftest import small_gpt2, small_llama
from tests.lab.by_hand import by_hand
from tests.models import tiny


def bert() -> Any:
    return tiny.build("BertConfig", "BertForMaskedLM", **tiny.SIZES)


def neox() -> Any:
    return tiny.build("GPTNeoXConfig", "GPTNeoXForCausalLM", **tiny.SIZES)


def bart() -> Any:
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 97, "decoder_ffn_dim": 48}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48}
    return tiny.build("BartConfig", "BartForConditionalGeneration", **sizes, **heads)


def agrees(scope: Scope, pruned: Pruned, inputs: Any) -> None:
    """The pruned model answers as the whole one does with those heads off, through our eyes and by itself."""
    with scope.edit(headscope.ablate(*pruned.removed)):
        wanted = scope.look(inputs).logits
    torch.testing.assert_close(Scope(pruned.model).look(inputs).logits, wanted, rtol=1e-4, atol=1e-4)
    pruned.model.close()
    ids = inputs if isinstance(inputs, list) else inputs["input_ids"][0].tolist()
    if isinstance(inputs, list):
        alone = pruned.model.model(input_ids=torch.tensor([ids])).logits[0]
        torch.testing.assert_close(alone, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "heads"),
    [
        (small_llama, ["0.0", "1.1", "2.5"]),  # uneven groups: a KV head is handed on
        (small_llama, ["0.0", "0.1"]),  # a whole group, its KV head with it
        (small_llama, ["0.1", "0.3", "0.5", "1.0", "1.2", "1.4", "2.1", "2.2", "2.4"]),  # one of each group
        (small_gpt2, ["0.0", "1.1", "1.3"]),
        (bert, ["0.2", "1.0", "1.1", "1.3"]),
        (neox, ["0.1", "1.3"]),
    ],
    ids=["llama-uneven", "llama-group", "llama-even", "gpt2", "bert", "neox"],
)
def test_a_pruned_model_answers_as_the_ablated_one(make: Any, heads: list[str], ids: list[int]) -> None:
    with headscope.load(make()) as scope:
        pruned = scope.prune(heads=heads)
        assert [str(head) for head in pruned.removed] == heads
        assert pruned.after.parameters < pruned.before.parameters
        assert pruned.after.attention_flops < pruned.before.attention_flops
        assert scope.shape.n_heads == pruned.before.heads == pruned.after.heads + len(heads)
        agrees(scope, pruned, ids)


def test_cross_attention_and_the_encoder_lose_heads() -> None:
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8, 9]]), "decoder_input_ids": torch.tensor([[2, 11, 12]])}
    with headscope.load(bart()) as scope:
        agrees(scope, scope.prune(heads=["encoder.0.1", "decoder.1.cross.0", "decoder.1.cross.3"]), inputs)


def test_a_kv_head_goes_only_with_all_of_its_query_heads(llama: Scope) -> None:
    one, both = llama.prune(heads=["0.0"]), llama.prune(heads=["0.0", "0.1"])
    width, d_head = 48, 8
    assert one.before.parameters - one.after.parameters == 2 * d_head * width
    assert both.before.parameters - both.after.parameters == (2 + 2 + 2) * d_head * width
    assert (both.after.kv_heads, both.after.kv_numbers) == (8, 8 * 2 * d_head)


def test_the_heads_that_matter_least_go_first(llama: Scope, ids: list[int]) -> None:
    pruned = llama.prune(keep=0.5, texts=[ids])
    moved = {entry.head: entry.kl.mean for entry in llama.importance([ids]) if entry.kl is not None}
    kept = [head for head in llama.shape.heads() if head not in pruned.removed]
    assert len(pruned.removed) == 9
    assert max(moved[head] for head in pruned.removed) <= sorted(moved[head] for head in kept)[3]
    assert all(site.n_heads >= 1 for site in pruned.model.shape.sites.values())
    assert pruned.loss is not None
    with llama.edit(headscope.ablate(*pruned.removed)):
        look = llama.look(ids)
    loss = torch.nn.functional.cross_entropy(look.logits[:-1], torch.tensor(ids[1:]))
    assert pruned.loss[1] == pytest.approx(float(loss), rel=1e-4)
    assert "9 of 18 heads removed, 9 left" in str(pruned)


def test_even_pruning_is_described_by_the_config_alone(llama: Scope, ids: list[int]) -> None:
    pruned = llama.prune(keep=0.5, texts=[ids], even=True)
    assert pruned.plain
    assert {site.n_heads for site in pruned.model.shape.sites.values()} == {3}
    agrees(llama, pruned, ids)


def test_even_pruning_that_a_config_cannot_describe_is_saved_as_a_layout(
    llama: Scope, ids: list[int], tmp_path: Path
) -> None:
    """Llama's config wants a width that its heads divide; 48 is no multiple of 5."""
    pruned = llama.prune(heads=["0.0", "1.5", "2.3"])
    assert {site.n_heads for site in pruned.model.shape.sites.values()} == {5}
    assert not pruned.plain
    with headscope.load(pruned.save(tmp_path / "five")) as five:
        torch.testing.assert_close(five.look(ids).logits, Scope(pruned.model).look(ids).logits)


def test_an_encoders_heads_are_ranked_by_how_far_its_output_moves(ids: list[int]) -> None:
    with headscope.load(bert()) as scope:
        pruned = scope.prune(keep=0.75, texts=[ids])
        assert pruned.loss is None
        moved = {}
        whole = scope.look(ids).logits
        for head in scope.shape.heads():
            with scope.edit(headscope.ablate(head)):
                moved[head] = float((scope.look(ids).logits - whole).norm())
        assert set(pruned.removed) == set(sorted(moved, key=lambda head: moved[head])[:2])


@pytest.fixture(scope="module")
def embedded() -> Iterator[Scope]:
    with headscope.load() as scope:
        yield scope


TEXT = "The white horse drank at the river. The white horse drank at the"


@pytest.mark.parametrize("even", [False, True])
def test_the_embedded_model_saved_and_opened_again(embedded: Scope, even: bool, tmp_path: Path) -> None:
    pruned = embedded.prune(keep=0.5, texts=[TEXT], even=even, by="gradient")
    folder = pruned.save(tmp_path / "smaller")
    assert pruned.plain == even == (not (folder / "pruned_heads.py").exists())
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["removed"] == [str(head) for head in pruned.removed]
    assert recipe["loss_nats"]["before"] < recipe["loss_nats"]["after"]
    with embedded.edit(headscope.ablate(*pruned.removed)):
        wanted = embedded.look(TEXT).logits
    with headscope.load(folder) as smaller:
        torch.testing.assert_close(smaller.look(TEXT).logits, wanted, rtol=1e-4, atol=1e-3)
        assert smaller.shape.n_heads == 32
        assert smaller.look(TEXT).contributions(3).sites["2"].error < 1e-4
        assert smaller.generate(TEXT, 3).text
        assert smaller.model.query_weight("2").shape[0] == smaller.model.shape.sites["2"].n_heads
        assert smaller.model.key_weight("2").shape[0] == smaller.model.shape.sites["2"].n_kv_heads


OPEN = """
import sys, torch, transformers
kind = transformers.AutoModelForCausalLM
uneven, even = kind.from_pretrained(sys.argv[1], trust_remote_code=True), kind.from_pretrained(sys.argv[2])
assert not any(name.startswith("headscope") for name in sys.modules)
torch.save([model(torch.arange(3, 20)[None]).logits[0] for model in (uneven, even)], sys.argv[3])
"""


@pytest.mark.slow
def test_plain_transformers_opens_the_folder(llama: Scope, ids: list[int], tmp_path: Path) -> None:
    both = [llama.prune(keep=0.5, texts=[ids], even=even) for even in (False, True)]
    folders = [str(pruned.save(tmp_path / str(pruned.plain))) for pruned in both]
    there = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", OPEN, *folders, str(tmp_path / "logits.pt")]
    subprocess.run(command, check=True, env=there, capture_output=True)
    for pruned, logits in zip(both, torch.load(tmp_path / "logits.pt"), strict=True):
        torch.testing.assert_close(logits, Scope(pruned.model).look(list(range(3, 20))).logits)


def test_a_pruned_model_can_be_pruned_again(llama: Scope, ids: list[int], tmp_path: Path) -> None:
    folder = llama.prune(heads=["0.0", "0.1", "1.0", "1.1"]).save(tmp_path / "once")
    with headscope.load(folder) as once:
        twice = once.prune(heads=["0.0", "0.1"])
        agrees(once, twice, ids)
        with headscope.load(twice.save(tmp_path / "twice")) as opened:
            assert [site.n_heads for site in opened.shape.sites.values()] == [2, 4, 6]


def test_bad_input(llama: Scope, ids: list[int], tmp_path: Path) -> None:
    for keep in (0.0, 1.5, -1.0, float("nan")):
        with pytest.raises(InputError, match=f"keep={keep}: give the share of heads to keep, above 0 and below 1"):
            llama.prune(keep=keep, texts=[ids])
    with pytest.raises(InputError, match=r"keep=1\.0 keeps all 18 heads; give a smaller share"):
        llama.prune(keep=1.0, texts=[ids])
    with pytest.raises(InputError, match=r"keep=0\.1 of 18 heads is 2, but each of the 3 sites keeps.* least 0\.167"):
        llama.prune(keep=0.1, texts=[ids])
    with pytest.raises(InputError, match="keep= chooses heads by their importance on texts; give some"):
        llama.prune(keep=0.5)
    with pytest.raises(InputError, match="either keep=, the share of heads to keep, or heads=, the heads to remove"):
        llama.prune(keep=0.5, heads=["0.1"], texts=[ids])
    with pytest.raises(InputError, match=r"heads=\[\] removes nothing"):
        llama.prune(heads=[])
    with pytest.raises(HeadNameError, match=r"9\.1: this model has layers 0–2"):
        llama.prune(heads=["9.1"])
    with pytest.raises(InputError, match=r"site 1 would lose all of its heads \(6\); at least one stays at every site"):
        llama.prune(heads=[Head("1", index) for index in range(6)])
    pruned = llama.prune(heads=["0.1"])
    (tmp_path / "file").write_text("here")
    with pytest.raises(InputError, match="is there already and not empty; give a new folder"):
        pruned.save(tmp_path)


def test_what_cannot_be_pruned_is_rejected() -> None:
    cases = [
        (tiny.t5(), ["encoder.0.1"], "T5Attention does not work with fewer heads"),
        (tiny.build("AlbertConfig", "AlbertForMaskedLM", **tiny.SIZES), ["0.1"], "0 is the same module as 0@2"),
        (
            tiny.build("Olmo2Config", "Olmo2ForCausalLM", **tiny.SIZES, num_key_value_heads=2),
            ["0.1"],
            "Olmo2Attention does not work with fewer heads",
        ),
        (
            tiny.build("Phi3Config", "Phi3ForCausalLM", **tiny.SIZES, num_key_value_heads=2),
            ["0.1"],
            "q, k and v come from one matrix, so every KV head that stays must keep equally many",
        ),
        (by_hand("previous token"), ["0.0"], "is not a transformers model, and only those can be pruned"),
    ]
    for model, heads, says in cases:
        with headscope.load(model) as scope, pytest.raises(ModelError, match=says):
            scope.prune(heads=heads)


def test_a_doctored_layout_is_refused(llama: Scope, tmp_path: Path) -> None:
    folder = llama.prune(heads=["0.1"]).save(tmp_path / "smaller")
    config = json.loads((folder / "config.json").read_text())
    good = config["pruned_heads"]
    path = "model.layers.0.self_attn"
    for part, value, says in (
        ("schema_version", 9, "pruned_heads has schema_version 9; expected 1"),
        ("matrices", {"model.norm": [4, 4]}, "only plain matrices lose heads"),
        ("matrices", {f"{path}.q_proj": [10**12, 4]}, "but it is 48 × 48"),
        ("attributes", {path: {"forward": 3}}, "which is not a size there"),
        ("shared", {f"{path}.k_proj": {"heads": [0, 99], "d_head": 8}}, "which has 3"),
    ):
        (folder / "config.json").write_text(json.dumps({**config, "pruned_heads": {**good, part: value}}))
        with pytest.raises(ModelError, match=says):
            headscope.load(folder)
