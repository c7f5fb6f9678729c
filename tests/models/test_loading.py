"""From files to an opened model, and what is said when that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.errors import InputError, ModelError
from headscope.models.huggingface import open_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "small-llama"
    tiny.llama().save_pretrained(path)
    tiny.tokenizer().save_pretrained(path)
    return path


def test_a_folder_opens_with_its_tokenizer(folder: Path) -> None:
    opened = open_model(str(folder))
    assert opened.shape.name == "small-llama"
    prepared = opened.prepare("the horse crossed the road")
    assert [token.text for token in prepared.tokens] == ["the", "horse", "crossed", "the", "road"]
    assert (prepared.tokens[1].start, prepared.tokens[1].end) == (4, 9)
    with torch.no_grad():
        own = tiny.llama()(**prepared.inputs).logits
        torch.testing.assert_close(opened.run(prepared.inputs).logits, own)
    opened.close()


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    model = tiny.llama()
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=r"holds its weights as a pickle \(pytorch_model.bin\).*safetensors or GGUF only"
    ):
        open_model(tmp_path)


def test_code_of_its_own_is_not_run(tmp_path: Path) -> None:
    auto = {"AutoConfig": "strange.StrangeConfig", "AutoModelForCausalLM": "strange.StrangeModel"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "strange", "auto_map": auto}))
    (tmp_path / "strange.py").write_text("raise SystemExit('ran')")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"asks to run Python code of its own.*trust_remote_code=True"):
        open_model(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no config.json .it holds nothing."),
        ({"config.json": '{"model_type": "llama"}'}, "has a config.json but no safetensors weights"),
        ({"config.json": '{"model_type": "noone"}', "model.safetensors": ""}, "cannot be opened: .*noone"),
    ],
)
def test_incomplete_folders_are_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelError, match=message):
        open_model(tmp_path)


def test_missing_files_and_wrong_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no file .*nowhere.gguf"):
        open_model(tmp_path / "nowhere.gguf")
    for path in (tmp_path / "nowhere", str(tmp_path / "nowhere"), "./nowhere", "a/deep/nowhere"):
        with pytest.raises(ModelError, match=r"there is no folder .*nowhere; give one that holds config.json"):
            open_model(path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelError, match=r"neither a folder with config.json and safetensors nor a .gguf file"):
        open_model(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="cannot open int"):
        open_model(7)
    with pytest.raises(InputError, match="load does not know the option colour; it knows device, "):
        open_model("x", colour="red")


def test_a_name_that_is_nowhere_is_our_error() -> None:
    with pytest.raises(ModelError, match="no-such-family/no-such-model cannot be opened"):
        open_model("no-such-family/no-such-model", local_files_only=True)


def test_a_family_without_the_interface_is_refused_and_left_alone() -> None:
    model = tiny.build("FalconConfig", "FalconForCausalLM", **tiny.SIZES)
    before = model.config._attn_implementation
    with pytest.raises(
        ModelError, match=r"falcon does not call the attention interface of transformers.*FalconAttention"
    ):
        open_model(model)
    assert model.config._attn_implementation == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_stranger_is_refused() -> None:
    with pytest.raises(ModelError, match="Linear is neither a transformers model nor built on headscope's"):
        open_model(torch.nn.Linear(2, 2))


def test_a_model_without_weights_is_refused() -> None:
    with torch.device("meta"):
        import transformers

        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**tiny.SIZES))
    with pytest.raises(ModelError, match="LlamaForCausalLM has no weights"):
        open_model(model)


def test_inputs_that_cannot_be_guessed_are_asked_for() -> None:
    model = tiny.llama()
    forward = model.forward

    def picky(input_ids: Any = None, secret: Any = None, **more: Any) -> Any:
        if secret is None:
            raise ValueError("no secret")
        return forward(input_ids, **more)

    model.forward = picky
    with pytest.raises(ModelError, match=r"did not run on the inputs that headscope guessed \(input_ids\).*no secret"):
        open_model(model)
    opened = open_model(model, probe={"input_ids": torch.tensor([[3, 4, 5]]), "secret": torch.ones(1)})
    assert list(opened.shape.sites) == ["0", "1"]
    opened.close()


def test_out_of_memory_is_said_in_words() -> None:
    opened = open_model(tiny.llama())

    def explode(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    opened.model.model.forward = explode
    with pytest.raises(InputError, match=r"out of memory on cpu for input_ids \(1, 3\); give a shorter text"):
        opened.run({"input_ids": torch.tensor([[1, 2, 3]])})
    opened.close()
