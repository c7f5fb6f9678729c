"""A served request opens as a look; what is not whole, does not follow, or is another model's is rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from headscope_vllm import Capture, Options
from safetensors import safe_open
from safetensors.torch import save_file
from tests.heads.conftest import small_llama
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from typer.testing import CliRunner

import headscope
from headscope.app.pages.predictions import PredictRequest
from headscope.app.show import session_of
from headscope.cli import app
from headscope.errors import InputError

IDS = [5, 9, 2, 7, 5, 9, 2, 7, 11, 3]


def serve(model: Any, folder: Path, **allowed: Any) -> None:
    """Write the capture of a request as the plug-in does, in two chunks, from a pass of transformers."""
    calls = []

    def seeing(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **more: Any) -> Any:
        z, weights = sdpa_attention_forward(module, q, k, v, mask, **more)
        calls.append([each[0].transpose(0, 1) for each in (q, k, v)] + [z[0]])
        return z, weights

    AttentionInterface.register("sdpa_seen", seeing)
    before, model.config._attn_implementation = model.config._attn_implementation, "sdpa_seen"
    with torch.no_grad():
        model(input_ids=torch.tensor([IDS]))
    model.config._attn_implementation = before
    capture = Capture(Options(folder=folder, **allowed))
    capture.ask("1", {"headscope": "x"}, len(IDS))
    for first, last in ((0, 6), (6, 10)):
        capture.keep("1", "ids", first, [torch.tensor(IDS[first:last])])
        for index, four in enumerate(calls):
            capture.keep("1", f"model.layers.{index}.self_attn.attn", first, [each[first:last] for each in four])
    scale = model.config.head_dim**-0.5

    def about(layers: Any, ids: Any) -> dict[str, Any]:
        scores = {
            name: {"layer": int(name.split(".")[2]), "scale": scale, "window": None, "softcap": 0} for name in layers
        }
        texts = [f" {each}" for each in ids]
        return {"model": "served/small", "d_model": model.config.hidden_size, "scores": scores, "texts": texts}

    capture.finish("1", about)


def rewrite(folder: Path, change: Callable[[dict[str, Tensor], dict[str, Any]], None]) -> None:
    file = folder / "x.safetensors"
    with safe_open(file, framework="pt") as old:
        told = json.loads(old.metadata()["headscope_capture"])
        tensors = {key: old.get_tensor(key) for key in old.keys()}  # noqa: SIM118
    change(tensors, told)
    save_file(tensors, file, {"headscope_capture": json.dumps(told)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    serve(small_llama(), tmp_path)
    return tmp_path


def test_served_request_is_the_look_of_its_model(folder: Path) -> None:
    opened = headscope.open_look(folder, name="x")
    with headscope.load(small_llama()) as scope:
        look = scope.look(IDS)
        assert opened.sites == look.sites
        for site in look.sites:
            torch.testing.assert_close(opened.patterns(site), look.patterns(site), atol=1e-6, rtol=0)
            torch.testing.assert_close(opened.z(site), look.z(site), atol=1e-5, rtol=0)
            for name, value in look.mean_answers(site).items():
                torch.testing.assert_close(opened.mean_answers(site)[name], value, atol=1e-5, rtol=0)
        assert opened.table().num_rows == look.table().num_rows
        with_model = headscope.open_look(folder, scope, name="x")
        assert with_model.logit_attribution(11, minus=4).heads == pytest.approx(
            look.logit_attribution(11, minus=4).heads, abs=1e-4
        )
        assert with_model.predictions() == look.predictions()
        assert str(with_model.why("1.0", -1, 2)) == str(look.why("1.0", -1, 2))
        assert str(with_model.trace(11)) == str(look.trace(11))
        pages = session_of(with_model), session_of(look)
        off = PredictRequest(look="given 0", position=9, off=["1.0", "0.2"])
        assert pages[0].predict(off) == pages[1].predict(off)
    assert [token.text for token in opened.tokens] == [f" {each}" for each in IDS]


def test_without_logits_it_says_so_and_saves(folder: Path, tmp_path: Path) -> None:
    opened = headscope.open_look(folder, name="x")
    opened.save(tmp_path / "y.headscope")
    opened.save_html(tmp_path / "y.html")
    again = headscope.open_look(tmp_path / "y.headscope")
    assert again.table().equals(opened.table())
    for look in (opened, again):
        for ask in (look.predictions, look.logit_lens, lambda look=look: look.trace(11)):
            with pytest.raises(InputError, match="has no logits: it was captured from a server"):
                ask()
        with pytest.raises(InputError, match=r"needs its model; give it: open_look\(path, scope\)"):
            look.why("1.0")
        asked = PredictRequest(look="given 0", position=9)
        assert session_of(look).predict(asked).predicts == "unknown"
    with (
        headscope.load(small_llama()) as scope,
        pytest.raises(InputError, match=r"was captured from a server.*open the capture itself"),
    ):
        headscope.open_look(tmp_path / "y.headscope", scope)


def test_fewer_layers_and_bits_open_with_what_is_there(tmp_path: Path) -> None:
    serve(small_llama(), tmp_path, layers=frozenset([1]), dtype=torch.bfloat16)
    opened = headscope.open_look(tmp_path, name="x")
    assert opened.sites == ("1",)
    with headscope.load(small_llama()) as scope:
        torch.testing.assert_close(opened.patterns(1), scope.look(IDS).patterns(1), atol=0.02, rtol=0)
        assert headscope.open_look(tmp_path, scope, name="x").sites == ("1",)


def lacking(tensors: dict[str, Tensor], told: dict[str, Any]) -> None:
    tensors.update({key: each[3:].clone() for key, each in tensors.items()})


def unfinished(tensors: dict[str, Tensor], told: dict[str, Any]) -> None:
    told["n_prompt"] = 12


def other_v(tensors: dict[str, Tensor], told: dict[str, Any]) -> None:
    tensors["model.layers.1.self_attn.attn.v"] *= 1.1


def not_a_number(tensors: dict[str, Tensor], told: dict[str, Any]) -> None:
    tensors["model.layers.1.self_attn.attn.z"][4] = torch.nan


def newer(tensors: dict[str, Tensor], told: dict[str, Any]) -> None:
    told["format"] = 2


def fewer_texts(tensors: dict[str, Tensor], told: dict[str, Any]) -> None:
    told["texts"].pop()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lacking, "3 of 10 rows are missing.*prefix cache"), (unfinished, "2 of 12 rows are missing"),
        (other_v, r"z of layer 1 does not follow from its q, k and v \(relative difference 0\.\d+, at most 0\.001\)"),
        (not_a_number, "z of layer 1 does not follow"), (newer, "has format 2; this program reads 1"),
        (fewer_texts, "damaged or in a different format"),
    ],
)  # fmt: skip
def test_capture_that_is_not_whole_is_rejected(change: Any, message: str, folder: Path) -> None:
    rewrite(folder, change)
    with pytest.raises(InputError, match=message):
        headscope.open_look(folder, name="x")


def test_capture_of_another_model_is_rejected(folder: Path) -> None:
    torch.manual_seed(7)
    other = small_llama()
    for weight in other.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    with (
        headscope.load(other) as scope,
        pytest.raises(InputError, match=r"is of another model than .*: z of layer 0 differs by \d+%"),
    ):
        headscope.open_look(folder, scope, name="x")
    with (
        headscope.load() as scope,
        pytest.raises(InputError, match=r"another model than .*: its layer 0 has"),
    ):
        headscope.open_look(folder, scope, name="x")


def test_unknown_name_lists_the_captures(folder: Path) -> None:
    with pytest.raises(InputError, match="has no capture named 'y'; it has x"):
        headscope.open_look(folder, name="y")


def test_command_opens_a_capture(folder: Path) -> None:
    found = CliRunner().invoke(app, ["look", "--capture", str(folder), "--name", "x", "--head", "1.0", "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["pattern"]


def test_server_shows_a_capture_with_its_model_only(folder: Path) -> None:
    found = CliRunner().invoke(app, ["serve", "--capture", str(folder), "--name", "x"])
    assert found.exit_code == 2
    assert "shown with its model" in found.output
