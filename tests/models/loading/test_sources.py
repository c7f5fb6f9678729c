"""Which sources are models, what is read beside the weights, and what reaches transformers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.models import tiny

from headscope.errors import InputError, ModelError
from headscope.models import loading
from headscope.models.loading import (
    Options,
    _device,
    _load_tokenizer,
    _place,
    open_model,
)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("gpt2", "gpt2"),
        ("openai/gpt2", "openai/gpt2"),
        ("folder", "folder"),
        (Path("folder"), "folder"),
        ("folder/model.gguf", "folder"),
    ],
)
def test_a_source_is_a_hub_name_a_folder_or_the_folder_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | Path, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/config.json").write_text("{}")
    for name in ("model.safetensors", "model.gguf"):
        (Path("folder") / name).write_bytes(bytes(8))
    path = Path(source)
    assert _place(source, path, path.name if path.suffix == ".gguf" else None) == place


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("a/b/c", "there is no folder a/b/c; give one that holds config.json and safetensors"),
        ("./gpt2", "there is no folder gpt2; give one that holds"),
        ("/gpt2", "there is no folder /gpt2; give"),
        ("~gpt2", "there is no folder ~gpt2; give"),
        (Path("gpt2"), "there is no folder gpt2; give"),
        ("notes.txt", "notes.txt is neither a folder with config.json and safetensors nor a .gguf file"),
        ("model.gguf", "there is no file model.gguf"),
    ],
)
def test_what_is_not_a_source_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | Path, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").touch()
    path = Path(source)
    with pytest.raises(ModelError, match=re.escape(says)):
        _place(source, path, path.name if path.suffix == ".gguf" else None)


def test_a_folder_says_what_it_holds_instead_of_a_config(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"has no config.json \(it holds nothing\); give a folder saved with save_pretrained"
    ):
        _place(tmp_path, tmp_path, None)
    for name in "gfedcba":
        (tmp_path / name).touch()
    with pytest.raises(ModelError, match=r"\(it holds a, b, c, d, e, f\)"):
        _place(tmp_path, tmp_path, None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"has a config.json but no safetensors weights; save it with save_pretrained"):
        _place(tmp_path, tmp_path, None)
    for name in ("z.bin", "b.pt", "a.pth", "c.ckpt"):
        (tmp_path / name).touch()
    with pytest.raises(ModelError, match=r"holds its weights as a pickle \(a.pth\), which can run code"):
        _place(tmp_path, tmp_path, None)
    (tmp_path / "model.safetensors").write_bytes((2**26 + 1).to_bytes(8, "little"))
    with pytest.raises(ModelError, match="has a header of"):
        _place(tmp_path, tmp_path, None)


def test_the_device_is_the_one_that_is_asked_for() -> None:
    assert _device(Options(device="meta")) == torch.device("meta")
    assert _device(Options(device=torch.device("cpu"))) == torch.device("cpu")
    assert _device(Options()).type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_a_tokenizer_that_is_not_there_is_none_and_a_broken_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _load_tokenizer(str(tmp_path), {"local_files_only": True}) is None

    class PanicException(BaseException):
        """As tokenizers names its own."""

    def load(raised: BaseException) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise raised

        monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
        return _load_tokenizer("here", {})

    said = r"the tokenizer in here is broken \(a token is odd\); fetch it again, or pass tokenizer="
    for raised in (RuntimeError("a token is odd"), PanicException("a token is odd")):
        with pytest.raises(ModelError, match=said):
            load(raised)
    for ended in (KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(ended)):
            load(ended)


def test_a_checkpoint_that_lacks_a_weight_is_refused(tmp_path: Path) -> None:
    model = tiny.llama()
    state = {name: weight for name, weight in model.state_dict().items() if "layers.1.self_attn.k_proj" not in name}
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(
        ModelError, match=r"lacks 1 of its weights \(model.layers.1.self_attn.k_proj.weight\), which would"
    ):
        open_model(tmp_path)


def test_a_device_map_reaches_transformers(tmp_path: Path) -> None:
    tiny.llama().save_pretrained(tmp_path)
    open_model(tmp_path, device_map="cpu").close()
    with pytest.raises(ModelError, match=r"cannot be opened: .*nowhere"):
        open_model(tmp_path, device_map="nowhere")


def test_sources_that_are_not_a_model_are_named() -> None:
    with pytest.raises(InputError, match="cannot open a model without a name; give a hub name, a folder, a GGUF file"):
        open_model("")
    with pytest.raises(InputError, match="cannot open int; give a hub name"):
        open_model(3)
    with pytest.raises(
        InputError, match="load does not know the option a, b; it knows device, device_map, dtype, grid"
    ):
        open_model("gpt2", b=1, a=2)


def test_a_revision_and_the_other_options_reach_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def fail(where: str, **given: Any) -> Any:
        asked.append({"where": where, **given})
        raise OSError("nothing there")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", fail)
    monkeypatch.setattr(loading, "refuse_unreachable", lambda name: None)
    for options in ({}, {"revision": "v2", "trust_remote_code": True, "local_files_only": True}):
        with pytest.raises(ModelError, match=r"someone/model cannot be opened: nothing there"):
            open_model("someone/model", **options)
    no, yes = ({"local_files_only": said, "trust_remote_code": said} for said in (False, True))
    assert asked == [{"where": "someone/model", **no}, {"where": "someone/model", "revision": "v2", **yes}]


def test_a_transformers_model_that_is_run_by_a_function_is_opened_by_its_functions() -> None:
    model = tiny.llama()
    opened = open_model(model, inputs=lambda: model.model(torch.tensor([[3, 4, 5]])))
    assert list(opened.shape.sites) == ["0", "1"]
    opened.close()
