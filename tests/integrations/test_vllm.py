"""What the vLLM plug-in keeps of a request: whole, of the right rows, within its limits, and never in the way.

Here without vLLM: ``make served`` runs the plug-in inside it.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from headscope_vllm import Capture, Options, refuse_version, register
from safetensors import safe_open
from torch import Tensor

LAYERS = tuple(f"model.layers.{index}.self_attn.attn" for index in range(2))


def rows(first: int, last: int, seed: int = 0) -> list[Tensor]:
    """q, k, v and z of these positions."""
    made = torch.Generator().manual_seed(seed)
    whole = [torch.randn(20, heads, 4, generator=made) for heads in (4, 2, 2, 4)]
    return [each[first:last] for each in whole]


def about(layers: Iterable[str], ids: Sequence[int]) -> dict[str, Any]:
    return {"layers": sorted(layers), "ids": list(ids)}


def feed(capture: Capture, request: str, steps: Sequence[tuple[int, int]], layers: Sequence[str] = LAYERS) -> None:
    for first, last in steps:
        capture.keep(request, "ids", first, [torch.arange(first, last)])
        for seed, layer in enumerate(layers):
            capture.keep(request, layer, first, rows(first, last, seed))


def captured(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with safe_open(folder / f"{name}.safetensors", framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        return json.loads(file.metadata()["headscope_capture"]), tensors


def run(capture: Capture, name: Any, steps: Sequence[tuple[int, int]] = ((0, 9),)) -> None:
    capture.ask("1", {"headscope": name}, 9)
    feed(capture, "1", steps)
    capture.finish("1", about)


def test_chunks_generated_rows_and_recomputed_rows_make_one_text(tmp_path: Path) -> None:
    capture = Capture(Options(folder=tmp_path))
    capture.ask("1", {"headscope": "long"}, 9)
    capture.ask("2", None, 5)
    feed(capture, "2", [(0, 5)])
    feed(capture, "1", [(0, 4), (4, 9), (9, 10), (10, 11), (0, 11), (11, 12)])  # as after a preemption
    assert not list(tmp_path.iterdir())
    for request in ("1", "2"):
        capture.finish(request, about)
    assert [file.name for file in tmp_path.iterdir()] == ["long.safetensors"]
    told, tensors = captured(tmp_path, "long")
    assert told["n_prompt"] == 9
    assert told["ids"] == tensors["positions"].tolist() == list(range(12))
    for seed, layer in enumerate(LAYERS):
        for what, whole in zip("qkvz", rows(0, 12, seed), strict=True):
            assert torch.equal(tensors[f"{layer}.{what}"], whole)


def test_rows_that_were_not_computed_are_left_out(tmp_path: Path) -> None:
    run(Capture(Options(folder=tmp_path)), "hit", [(4, 9)])
    assert captured(tmp_path, "hit")[1]["positions"].tolist() == [4, 5, 6, 7, 8]


def test_only_chosen_layers_are_captured_in_the_chosen_dtype(tmp_path: Path) -> None:
    chosen = {"LAYERS": "1,7-9", "DTYPE": "float16", "MB": "3"}
    options = Options.read(
        {"HEADSCOPE_CAPTURE": str(tmp_path)} | {f"HEADSCOPE_CAPTURE_{key}": value for key, value in chosen.items()}
    )
    assert options is not None
    assert options.per_request == 3_000_000
    run(Capture(options), "some")
    told, tensors = captured(tmp_path, "some")
    assert told["layers"] == [LAYERS[1]]
    assert tensors[f"{LAYERS[1]}.q"].dtype == torch.float16
    assert tensors["ids"].dtype == torch.int64


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".hidden", "x" * 65, "new\nline", 7, ["x"]])
def test_name_that_could_be_a_path_is_not_captured(name: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(Capture(Options(folder=tmp_path)), name)
    assert not list(tmp_path.iterdir())
    assert not list(tmp_path.parent.glob("*.safetensors"))
    assert "is not captured: a name has" in caplog.text


def test_taken_name_is_not_captured_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(Capture(Options(folder=tmp_path)), "x")
    before = (tmp_path / "x.safetensors").read_bytes()
    run(Capture(Options(folder=tmp_path)), "x", [(0, 3)])
    assert (tmp_path / "x.safetensors").read_bytes() == before
    assert "there is a capture of that name" in caplog.text


@pytest.mark.parametrize("limit", ["per_request", "in_all"])
def test_request_over_a_limit_is_dropped_whole(limit: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    capture = Capture(Options(folder=tmp_path, **{limit: 3400}))  # nine rows take 3456 + 72 bytes
    run(capture, "much")
    assert not list(tmp_path.iterdir())
    assert "it needs more than 3,400 bytes" in caplog.text
    run(capture, "little", [(0, 4)])
    assert [file.name for file in tmp_path.iterdir()] == ["little.safetensors"]


def test_full_disk_leaves_nothing_and_serving_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    capture, limits = Capture(Options(folder=tmp_path)), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        run(capture, "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
    assert "its file cannot be written (File too large)" in caplog.text
    run(capture, "x")
    assert (tmp_path / "x.safetensors").is_file()


def test_nothing_is_captured_unless_the_operator_named_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADSCOPE_CAPTURE", raising=False)
    register()  # imports no vLLM, which is not here
    assert Options.read({"HEADSCOPE_CAPTURE_LAYERS": "1"}) is None


@pytest.mark.parametrize(
    ("variable", "given", "message"),
    [("LAYERS", "1;2", "write numbers and ranges"), ("DTYPE", "int8", "is none of float32"), ("MB", "-1", "whole")],
)
def test_wrong_setting_is_rejected_by_name(variable: str, given: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"HEADSCOPE_CAPTURE_{variable}='{given}'.*{message}"):
        Options.read({"HEADSCOPE_CAPTURE": "x", f"HEADSCOPE_CAPTURE_{variable}": given})


def test_versions_not_tried_are_rejected_by_name() -> None:
    refuse_version("0.32.0+cpu")
    with pytest.raises(RuntimeError, match=r"not tried with vLLM 0\.33\.1; it knows 0\.32\.0"):
        refuse_version("0.33.1")
