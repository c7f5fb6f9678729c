"""Models are opened from files and objects, or refused with a reason."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.models import tiny
from transformers import CLIPImageProcessorPil, CLIPProcessor

from headscope.errors import InputError, ModelError
from headscope.models.inputs.media import MediaProcessors
from headscope.models.loading import _explain, _model_class, input_processor, open_model


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


def test_missing_files_and_wrong_sources_are_named(tmp_path: Path) -> None:
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


def test_an_unknown_hub_name_is_our_error() -> None:
    with pytest.raises(ModelError, match="no-such-family/no-such-model cannot be opened"):
        open_model("no-such-family/no-such-model", local_files_only=True)


def test_a_family_without_the_interface_comes_in_by_its_functions_and_is_not_changed() -> None:
    model = tiny.build("FalconConfig", "FalconForCausalLM", **tiny.SIZES)
    before = model.config._attn_implementation
    opened = open_model(model, tiny.tokenizer())
    assert "FalconForCausalLM does not call transformers' attention interface" in opened.notes[0]
    assert set(opened.shape.sites) == {"0", "1"}
    assert opened.shape.find("transformer.h.1.self_attention.2") == opened.shape.find("1.2")
    assert opened.prepare("the horse crossed the road").inputs["input_ids"].shape == (1, 5)
    opened.close()
    assert model.config._attn_implementation == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_module_without_attention_is_refused() -> None:
    with pytest.raises(ModelError, match="Linear is not a transformers model and does not use headscope's"):
        open_model(torch.nn.Linear(2, 2))


def test_a_model_without_weights_is_refused() -> None:
    with torch.device("meta"):
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


def test_out_of_memory_names_the_inputs() -> None:
    opened = open_model(tiny.llama())

    def explode(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    opened.model.model.forward = explode
    with pytest.raises(InputError, match=r"out of memory on cpu for input_ids \(1, 3\); give a shorter text"):
        opened.run({"input_ids": torch.tensor([[1, 2, 3]])})
    opened.close()


@pytest.mark.parametrize(
    ("config", "model", "stated", "expected"),
    [
        ("LlamaConfig", "LlamaForCausalLM", ["BertModel"], "BertModel"),
        ("LlamaConfig", "LlamaForCausalLM", ["NotKnownHere"], "LlamaForCausalLM"),
        ("LlamaConfig", "LlamaForCausalLM", ["Trainer"], "LlamaForCausalLM"),
        ("T5Config", "T5ForConditionalGeneration", None, "T5ForConditionalGeneration"),
        ("ModernBertConfig", "ModernBertModel", None, "ModernBertForMaskedLM"),
        ("ViTConfig", "ViTModel", [], "ViTModel"),
    ],
)
def test_a_checkpoint_is_of_the_class_it_names_else_of_the_first_auto_class(
    config: str, model: str, stated: list[str] | None, expected: str
) -> None:
    """A name that is not a model class of transformers is ignored."""
    made = getattr(transformers, config)(architectures=stated)
    kind = _model_class(made)
    mapped = kind if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel) else None
    found = mapped or kind._model_mapping[type(made)]
    assert found.__name__ == expected


@pytest.mark.parametrize(
    ("longest", "expected"), [(None, 128), (64, 64), (10**30, 128)], ids=["not said", "said", "as good as not said"]
)
def test_the_context_is_what_both_the_config_and_the_tokenizer_allow(longest: int | None, expected: int) -> None:
    tokenizer = tiny.tokenizer()
    if longest is not None:
        tokenizer.model_max_length = longest
    reader = input_processor(tiny.llama(), tokenizer)
    assert (reader.context, reader.vocabulary, reader.start) == (expected, 97, None)


def test_a_processor_adds_to_a_tokenizer_or_has_its_own() -> None:
    whole = CLIPProcessor(CLIPImageProcessorPil(), tiny.tokenizer())
    mine = tiny.tokenizer()
    beside, alone = input_processor(tiny.clip(), mine, whole), input_processor(tiny.clip(), None, whole)
    assert beside.tokenizer is mine
    assert alone.tokenizer is whole.tokenizer
    assert beside.media.image is alone.media.image is whole.image_processor


class Wrapped(torch.nn.Module):
    """Wraps a model as adapters do."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.inner = model

    def get_base_model(self) -> torch.nn.Module:
        return self.inner


def test_a_wrapped_model_is_unwrapped() -> None:
    model = tiny.llama()
    opened = open_model(Wrapped(model))
    assert opened.model is model
    assert opened.shape.name == "LlamaForCausalLM"
    opened.close()


def test_name_and_precision_may_be_chosen(folder: Path, tmp_path: Path) -> None:
    opened = open_model(folder, name="mine", dtype=torch.bfloat16)
    assert opened.shape.name == "mine"
    assert {weight.dtype for weight in opened.model.parameters()} == {torch.bfloat16}
    assert not opened.model.training
    opened.close()
    tiny.llama().bfloat16().save_pretrained(tmp_path / "half")
    plain = open_model(tmp_path / "half", device="cpu")
    assert {weight.dtype for weight in plain.model.parameters()} == {torch.float32}, "on a CPU, unless told"
    plain.close()


def copied(folder: Path, to: Path, **files: str) -> Path:
    """A copy in which some files hold something else."""
    shutil.copytree(folder, to)
    for name, content in files.items():
        (to / f"{name}.json").write_text(content)
    return to


def test_a_broken_tokenizer_is_refused_and_may_be_replaced(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder, tmp_path / "copy", tokenizer='{"model": {"type": "Nothing"}}')
    opened = open_model(copy)
    assert "its tokenizer.json could not be read, so it reads token ids and no text" in opened.notes
    opened.close()
    opened = open_model(copy, tiny.tokenizer())
    assert not [note for note in opened.notes if "tokenizer" in note]
    assert opened.prepare("the horse").inputs["input_ids"].tolist() == [[4, 5]]
    opened.close()


def test_a_config_whose_sizes_do_not_fit_its_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    copy = copied(folder, tmp_path / "copy", config=json.dumps({**config, "hidden_size": 36}))
    with pytest.raises(ModelError, match=r"copy cannot be opened: "):
        open_model(copy)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("set trust_remote_code=True"), "asks to run Python code of its own; headscope does not unless you"),
        (OSError("it contains custom code"), "asks to run Python code of its own"),
        (OSError("x does not appear to have a file named model.safetensors"), "holds its weights as a pickle"),
        (ValueError("gguf is not like this"), "there cannot be opened: gguf is not like this$"),
        (
            KeyError(),
            r"there cannot be opened: transformers failed at its config or weights \(KeyError\)",
        ),
        (ValueError("one line\nand another"), "there cannot be opened: one line$"),
    ],
)
def test_load_errors_are_explained_in_one_sentence(error: Exception, says: str) -> None:
    assert re.search(f"^there.*{says}" if not says.startswith("there") else says, _explain("there", error))


def test_a_picture_models_folder_opens_without_a_tokenizer(tmp_path: Path) -> None:
    tiny.vit().save_pretrained(tmp_path / "vit")
    opened = open_model(tmp_path / "vit")
    assert opened.processor.tokenizer is None
    assert opened.processor.media == MediaProcessors()
    assert len(opened.prepare(torch.rand(3, 32, 32)).tokens) == 17
    opened.close()


def test_a_folder_without_its_head_opens_as_the_model_without_one(tmp_path: Path) -> None:
    """Folders of sentence encoders name the class that was trained, and hold the encoder alone."""
    config = transformers.MPNetConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=97
    )
    transformers.MPNetModel(config).save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(said | {"architectures": ["MPNetForMaskedLM"]}))
    opened = open_model(tmp_path)
    assert type(opened.model) is transformers.MPNetModel
    assert any("names MPNetForMaskedLM, and its files hold no weights of that head" in note for note in opened.notes)
    opened.close()
