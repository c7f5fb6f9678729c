"""Which models a server opens, and that no code of a model runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient
from typer.testing import CliRunner

import headscope
from headscope.app.model_registry import KEPT_OPENED, ModelRegistry
from headscope.app.server import HOST, application
from headscope.cli import app
from headscope.errors import ModelError
from tests.app.conftest import small_model, word_tokenizer

SNAKE = "import pathlib; pathlib.Path('{mark}').write_text('ran')\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "little"
    small_model(1).save_pretrained(path)
    word_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def open_client(session) -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry(session, opener=headscope.load)), base_url=f"http://{HOST}") as client:
        yield client


@pytest.mark.promise("No other models")
def test_a_model_that_was_not_allowed_is_refused(client, folder):
    told = client.post("/api/models", json={"name": str(folder)})
    assert told.status_code == 422
    assert "shows only LlamaForCausalLM; to open" in told.json()["message"]
    assert "headscope serve --allow-models" in told.json()["message"]
    told = client.get("/api/models").json()
    assert (told["names"], told["opens"]) == (["LlamaForCausalLM"], False)
    assert client.get("/api/model", params={"model": str(folder)}).status_code == 422


@pytest.mark.promise("No other models")
def test_with_allow_models_a_folder_is_opened(open_client, folder):
    assert open_client.post("/api/models", json={"name": str(folder)}).json() == {"name": "little"}
    told = open_client.get("/api/models").json()
    assert (told["names"], told["opens"]) == (["LlamaForCausalLM", "little"], True)
    assert open_client.post("/api/look", params={"model": "little"}, json={"text": "the old lamp"}).status_code == 200
    assert open_client.post("/api/models", json={"name": "little"}).json() == {"name": "little"}


@pytest.mark.promise("No other models")
def test_the_number_of_models_opened_from_the_page_is_limited(session, scope):
    registry = ModelRegistry(session, opener=lambda name: headscope.load(small_model(1), word_tokenizer(), name=name))
    for number in range(KEPT_OPENED + 3):
        registry.open(f"model {number}")
    assert registry.names() == [scope.shape.name, "model 3", "model 4"]


@pytest.mark.promise("No code from models")
def test_a_pickle_is_never_loaded(tmp_path, open_client):
    class Bomb:
        def __reduce__(self):
            return Path.write_text, (tmp_path / "ran", "ran")

    small_model(1).config.save_pretrained(tmp_path / "model")
    torch.save({"weight": Bomb()}, tmp_path / "model/pytorch_model.bin")
    with pytest.raises(ModelError, match=r"as a pickle \(pytorch_model.bin\), which can run code when it is opened"):
        headscope.load(tmp_path / "model")
    assert open_client.post("/api/models", json={"name": str(tmp_path / "model")}).status_code == 422
    assert not (tmp_path / "ran").exists()


@pytest.mark.promise("No code from models")
def test_pickles_next_to_safetensors_are_ignored(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return Path.write_text, (tmp_path / "ran", "ran")

    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        torch.save({"weight": Bomb()}, folder / name)
    headscope.load(folder).close()
    assert not (tmp_path / "ran").exists()


def with_code(folder: Path) -> Path:
    """A model with code for its config, weights and tokenizer; the marker file shows whether any of it ran."""
    mark = folder / "ran"
    auto = {"AutoConfig": "snake.Config", "AutoModel": "snake.Model", "AutoModelForCausalLM": "snake.Model"}
    (folder / "config.json").write_text(json.dumps({"model_type": "snake", "auto_map": auto}))
    tokenizer = {"tokenizer_class": "Snake", "auto_map": {"AutoTokenizer": ["snake.Slow", "snake.Fast"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "snake.py").write_text(SNAKE.format(mark=mark))
    (folder / "model.safetensors").write_bytes(b"")
    return mark


@pytest.mark.promise("No code from models")
def test_a_model_s_code_is_not_run_by_python_server_or_command(tmp_path, open_client, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers asks at a terminal; we never let it
    mark = with_code(tmp_path)
    with pytest.raises(ModelError, match=r"asks to run Python code of its own.*pass trust_remote_code=True"):
        headscope.load(tmp_path)
    told = open_client.post("/api/models", json={"name": str(tmp_path)})
    assert "asks to run Python code of its own" in told.json()["message"]
    done = CliRunner().invoke(app, ["look", "the", "--model", str(tmp_path)])
    assert isinstance(done.exception, ModelError)
    assert not mark.exists()


@pytest.mark.promise("No code from models")
def test_a_tokenizer_s_code_is_not_run_when_the_weights_need_none(folder, tmp_path):
    small_model(1).save_pretrained(tmp_path)
    mark = tmp_path / "ran"
    tokenizer = {"tokenizer_class": "Snake", "auto_map": {"AutoTokenizer": ["snake.Slow", "snake.Fast"]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (tmp_path / "snake.py").write_text(SNAKE.format(mark=mark))
    headscope.load(tmp_path).close()
    assert not mark.exists()


@pytest.mark.promise("No code from models")
def test_no_command_and_no_request_can_trust_remote_code(client):
    assert "trust" not in json.dumps(client.get("/openapi.json").json())
    for command in app.registered_commands:
        assert command.callback is not None
        assert not any("trust" in name for name in command.callback.__annotations__)
