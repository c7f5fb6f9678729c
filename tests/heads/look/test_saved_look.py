"""A saved look opens again with the same numbers; what it cannot do without its model, it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tests.heads.conftest import small_llama
from tests.heads.look.test_padded_batch import small

import headscope
from headscope import ablate
from headscope.errors import InputError
from headscope.scope import Scope


def test_everything_that_needs_no_model_is_the_same(scope: Scope, ids: list[int], tmp_path: Path) -> None:
    look = scope.look(ids)
    look.save(tmp_path / "x.headscope")
    opened = headscope.open_look(str(tmp_path / "x.headscope"))
    assert repr(opened) == repr(look)
    assert opened.tokens == look.tokens
    assert opened.table().equals(look.table())
    assert opened.predictions(3, count=4) == look.predictions(3, count=4)
    for site in look.sites:
        assert torch.equal(opened.patterns(site), look.patterns(site))
        assert torch.equal(opened.z(site), look.z(site))
    assert torch.equal(opened.pooled("1.2", (5, 5)).mean, look.pooled("1.2", (5, 5)).mean)


@pytest.mark.parametrize("family", ["mistral, windowed", "t5", "bert"])
def test_windows_biases_and_several_stacks_are_kept(family: str, ids: list[int], tmp_path: Path) -> None:
    with headscope.load(small(family)) as scope:
        look = scope.look(ids)
        look.save(tmp_path / "x.headscope")
        opened = headscope.open_look(tmp_path / "x.headscope")
        for site in look.sites:
            assert torch.equal(opened.patterns(site), look.patterns(site))


def test_with_its_scope_it_does_all_that_a_fresh_look_does(scope: Scope, ids: list[int], tmp_path: Path) -> None:
    look = scope.look(ids)
    look.save(tmp_path / "x.headscope")
    opened = headscope.open_look(tmp_path / "x.headscope", scope)
    assert opened.logit_attribution(11, minus=4).heads == pytest.approx(
        look.logit_attribution(11, minus=4).heads, abs=1e-5
    )
    torch.testing.assert_close(opened.recorded.value("mlp_out 1"), look.recorded.value("mlp_out 1"))


def test_without_it_what_needs_the_model_says_so(llama: Scope, ids: list[int], tmp_path: Path) -> None:
    llama.look(ids).save(tmp_path / "x.headscope")
    opened = headscope.open_look(tmp_path / "x.headscope")
    for ask in (lambda: opened.logit_attribution(11), lambda: opened.contributions(3), lambda: opened.recorded):
        with pytest.raises(InputError, match=r"opened from a file.*give it: open_look\(path, scope\)"):
            ask()


def test_under_edits_no_pass_is_run_again_without_them(llama: Scope, ids: list[int], tmp_path: Path) -> None:
    with llama.edit(ablate("1.1")):
        llama.look(ids).save(tmp_path / "x.headscope")
    opened = headscope.open_look(tmp_path / "x.headscope", llama)
    assert opened.z("1")[1].abs().max() == 0
    with pytest.raises(InputError, match=r"make it again under its edits \(ablate\(1.1"):
        opened.recorded.value("resid_pre 1")


def test_other_weights_other_versions_and_other_files_are_refused(llama: Scope, ids: list[int], tmp_path: Path) -> None:
    path = tmp_path / "x.headscope"
    llama.look(ids).save(path)
    other = small_llama()
    with torch.no_grad():
        other.lm_head.weight[0, 0] += 1
    with headscope.load(other) as scope, pytest.raises(InputError, match="other weights than this model's"):
        headscope.open_look(path, scope)
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(InputError, match="save the look again"):
        headscope.open_look(path)
    save_file({"x": torch.zeros(2)}, path, metadata={"headscope_look": '{"map": {"schema_version": 9}}'})
    with pytest.raises(InputError, match="schema_version 9; this program reads 1"):
        headscope.open_look(path)
    save_file({"x": torch.zeros(2)}, path, metadata={"headscope_look": '{"class": "Popen", "fields": {}}'})
    with pytest.raises(InputError, match="'Popen'"):
        headscope.open_look(path)


def test_a_look_under_knocked_out_arrows_is_saved_and_one_under_a_cut_path_is_refused(
    llama: Scope, ids: list[int], tmp_path: Path
) -> None:
    with llama.edit(headscope.knock_out("0.1", 8, 3)):
        llama.look(ids).save(tmp_path / "x.headscope")
    assert float(headscope.open_look(tmp_path / "x.headscope").pattern("0.1")[8, 3]) == 0.0
    with llama.edit(headscope.ablate(headscope.path("0.0", "1.1"))):
        look = llama.look(ids)
        with pytest.raises(InputError, match="save the look without the ablated path"):
            look.save(tmp_path / "y.headscope")


@pytest.mark.parametrize("at", [0.2, 0.5, 0.8, 0.999])
def test_look_with_one_flipped_bit_is_rejected(llama: Scope, ids: list[int], tmp_path: Path, at: float) -> None:
    path = tmp_path / "x.headscope"
    llama.look(ids).save(path)
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= 4
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="save the look again"):
        headscope.open_look(path)


def test_look_without_digest_opens_with_a_warning(llama: Scope, ids: list[int], tmp_path: Path) -> None:
    path = tmp_path / "x.headscope"
    llama.look(ids).save(path)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = file.metadata()["headscope_look"]
    save_file(tensors, path, metadata={"headscope_look": header})
    with pytest.warns(UserWarning, match="without a digest of its data: not verified"):
        opened = headscope.open_look(path)
    assert torch.equal(opened.z("1"), llama.look(ids).z("1"))
