"""Files whose fields lie about sizes: refused in a sentence when they are opened, not by an index error later."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, application
from headscope.errors import InputError, ModelError
from headscope.models.inputs.tokens import InputProcessor
from headscope.scope import Scope
from tests.app.conftest import small_model, word_tokenizer

Header = dict[str, Any]


@pytest.fixture(scope="module")
def opened() -> Iterator[Scope]:
    with headscope.load(small_model(), word_tokenizer()) as scope:
        yield scope


def split(file: Path) -> tuple[Header, bytes]:
    raw = file.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def joined(header: str, body: bytes) -> bytes:
    return len(header.encode()).to_bytes(8, "little") + header.encode() + body


def site(look: Header) -> Header:
    return look["shape"]["fields"]["sites"]["map"]["0"]["fields"]  # type: ignore[no-any-return]


def prepared(look: Header) -> Header:
    return look["prepared"]["fields"]  # type: ignore[no-any-return]


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


LOOKS: dict[str, tuple[Callable[[Header], object], str]] = {
    "more heads": (lambda it: site(it).update(n_heads=600), r"q of site 0 has shape \(1, 6, 5, 8\), which"),
    "heads that do not divide": (lambda it: site(it).update(n_heads=10**12), "site 0 has sizes"),
    "negative heads": (lambda it: site(it).update(n_heads=-6), "site 0 has sizes"),
    "heads in letters": (lambda it: site(it).update(n_heads="six"), "site 0 has sizes"),
    "other KV heads": (lambda it: site(it).update(n_kv_heads=6), "k of site 0 has shape"),
    "wider values": (lambda it: site(it).update(d_value=9), "z of site 0 has shape"),
    "more keys": (lambda it: it["reached"]["map"].update({"0": [5, 9]}), "k of site 0 has shape"),
    "no tokens": (lambda it: prepared(it).update(tokens=[]), "0 tokens for 5 ids"),
    "tokens three times": (lambda it: prepared(it).update(tokens=prepared(it)["tokens"] * 3), "15 tokens for 5 ids"),
    "numbers for tokens": (lambda it: prepared(it).update(tokens=[1, 2, 3, 4, 5]), "one of its tokens is not a token"),
    "a site less": (lambda it: it["sites"]["map"].pop("0"), r"sites \['1'\] of a model with"),
    "an unknown site": (lambda it: it["shape"]["fields"]["sites"]["map"].pop("0"), r"sites \['0', '1'\] of a"),
    "negative windows": (lambda it: it["n_windows"]["map"].update({"0": -4}), r"n_windows=\{.*\} are not counts"),
    "other logits": (lambda it: it.update(logits={"tensor": "4"}), r"logits of shape \(.*\) for a vocabulary of 19"),
    "statistics of another size": (
        lambda it: it["sites"]["map"]["0"]["fields"]["rows"]["fields"].update(entropy={"tensor": "0"}),
        "entropy of site 0 has shape",
    ),
    "no model": (lambda it: it.update(shape=[]), "it describes no model"),
    "nested": (lambda it: it.update(vocabulary=nested(900)), "maximum recursion"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LOOKS)
def test_a_saved_look_whose_fields_do_not_fit_is_refused(opened: Scope, tmp_path: Path, lie: str) -> None:
    file, (edit, why) = tmp_path / "it.headscope", LOOKS[lie]
    opened.look("the old lamp on landing").save(file)
    header, body = split(file)
    look = json.loads(header["__metadata__"]["headscope_look"])
    edit(look["map"])
    header["__metadata__"]["headscope_look"] = json.dumps(look)
    file.write_bytes(joined(json.dumps(header), body))
    checked_here = "violates type hint"  # of beartype, which the tests run with; users do not
    with pytest.raises(
        InputError, match=rf"it\.headscope is damaged or in a different format \(({why}|.*{checked_here})"
    ):
        headscope.open_look(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    small_model().save_pretrained(made)
    word_tokenizer().save_pretrained(made)
    return made


def first_two(header: Header) -> tuple[Header, Header]:
    names = [name for name in header if name != "__metadata__"]
    return header[names[0]], header[names[1]]


WEIGHTS: dict[str, Callable[[Header, Header], object]] = {
    "overlapping": lambda one, two: two.update(data_offsets=one["data_offsets"]),
    "negative": lambda one, _: one.update(data_offsets=[-8, 8]),
    "reversed": lambda one, _: one.update(data_offsets=one["data_offsets"][::-1]),
    "past the end": lambda one, _: one.update(data_offsets=[0, 10**12]),
    "overflowing": lambda one, _: one.update(shape=[2**40, 2**40]),
    "negative shape": lambda one, _: one.update(shape=[-1, 48]),
    "larger than the data": lambda one, _: one.update(shape=[one["shape"][0] + 1, *one["shape"][1:]]),
    "other dtype": lambda one, _: one.update(dtype="F16"),
}


@pytest.mark.parametrize("lie", WEIGHTS)
def test_weights_that_lie_about_their_size_are_refused(folder: Path, lie: str) -> None:
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    header, body = split(file)
    WEIGHTS[lie](*first_two(changed := copy.deepcopy(header)))
    try:
        file.write_bytes(joined(json.dumps(changed), body))
        with pytest.raises(ModelError, match="cannot be opened"):
            headscope.load(str(folder))
    finally:
        file.write_bytes(whole)


def test_a_tokenizer_that_fails_without_a_panic_is_a_sentence() -> None:
    empty = Tokenizer(models.WordLevel({}, unk_token="[UNK]"))
    reader = InputProcessor(PreTrainedTokenizerFast(tokenizer_object=empty), vocabulary=2, context=9)
    with pytest.raises(InputError, match=r"fails on the text \(WordLevel error: Missing \[UNK\] token"):
        reader.prepare("a")


BODIES = {
    "lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "inside a field": '{"text":' + "[" * 5_000 + "]" * 5_000 + "}",
    "not a number": '{"text": NaN}',
    "a long number": '{"text": ' + "9" * 5_000 + "}",
    "the same key twice": '{"text": "the old lamp", "text": 5}',
}
READ_NO_BODY = {"/api/roles", "/api/rules"}


@pytest.mark.promise("Damaged files are errors")
def test_nested_and_odd_json_is_a_message_on_every_route(opened: Scope) -> None:
    app = application(ModelRegistry(Session(opened)))
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as client:
        paths = client.get("/openapi.json").json()["paths"]
        routes = [path for path, methods in paths.items() if "post" in methods and path not in READ_NO_BODY]
        assert len(routes) > 20
        for route in routes:
            for name, body in BODIES.items():
                answer = client.post(route, content=body, headers={"Content-Type": "application/json"})
                assert 400 <= answer.status_code < 500, (route, name, answer.text[:200])
                assert set(answer.json()) >= {"kind", "message"}, (route, name)
