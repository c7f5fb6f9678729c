"""GGUF files and censuses whose sizes, counts and shapes contradict each other: refused in a sentence."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest

import headscope
from headscope.errors import InputError, ModelError
from headscope.models.fetch import unpacked_megabytes
from headscope.scan.census import Census
from tests.attack.test_files_lying import joined, split
from tests.fuzz.opening import census_folder, gguf_file


class GGUF:
    """A GGUF file whose fields are changed in place."""

    def __init__(self, file: Path) -> None:
        self.raw, self.reader = file.read_bytes(), gguf.GGUFReader(file)

    def field(self, name: str, value: int) -> bytes:
        return self._put(self.reader.fields[name].offset + 8 + len(name) + 4, struct.pack("<I", value))

    def tensor(self, name: str, part: str, value: int) -> bytes:
        """Change the first axis, the type or the place of a matrix."""
        found = next(tensor for tensor in self.reader.tensors if tensor.name == name)
        after_name = found.field.offset + 8 + len(name)
        at = after_name + {"axis": 4, "type": 20, "place": 24}[part]
        return self._put(at, struct.pack("<I" if part == "type" else "<Q", value))

    def _put(self, at: int, data: bytes) -> bytes:
        return self.raw[:at] + data + self.raw[at + len(data) :]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> GGUF:
    return GGUF(gguf_file(tmp_path_factory.mktemp("gguf")))


Q = "blk.0.attn_q.weight"
METADATA: dict[str, tuple[Callable[[GGUF], bytes], str]] = {
    "fewer heads": (lambda it: it.field("llama.attention.head_count", 2), r"k_proj.weight has shape \(16, 32\), and"),
    "more heads": (lambda it: it.field("llama.attention.head_count", 8), r"the file's metadata says \(8, 32\)"),
    "other KV heads": (lambda it: it.field("llama.attention.head_count_kv", 4), r"metadata says \(32, 32\)"),
    "narrower": (lambda it: it.field("llama.embedding_length", 16), r"embed_tokens.weight has shape \(97, 32\)"),
    "wider": (lambda it: it.field("llama.embedding_length", 64), r"metadata says \(97, 64\)"),
    "a layer more": (lambda it: it.field("llama.block_count", 3), "lacks 9 of its weights"),
    "a smaller MLP": (lambda it: it.field("llama.feed_forward_length", 24), r"gate_proj.weight has shape \(48, 32\)"),
    "a huge vocabulary": (lambda it: it.field("llama.vocab_size", 2**31 - 1), "describes 137,438,968,928 weights"),
    "a smaller matrix": (lambda it: it.tensor(Q, "axis", 16), r"q_proj.weight has shape \(32, 16\), and the file's"),
    "past the end": (lambda it: it.tensor(Q, "place", 2**40), "cannot be opened"),
    "another type": (lambda it: it.tensor(Q, "type", 99), "cannot be opened"),
}


@pytest.mark.promise("Damaged files are errors")
@pytest.mark.parametrize("lie", METADATA)
def test_a_gguf_file_that_contradicts_itself_is_refused(written: GGUF, tmp_path: Path, lie: str) -> None:
    file, (change, why) = tmp_path / "small.gguf", METADATA[lie]
    file.write_bytes(change(written))
    with pytest.raises(ModelError, match=why):
        headscope.load(file)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (struct.pack("<IIQ", 9, 0, 2**60) + bytes(10), "its metadata go on past its 78 bytes"),  # an array of 2^60
        (struct.pack("<IQ", 8, 2**60) + bytes(10), "its metadata go on past its 74 bytes"),  # a string
        (struct.pack("<IQ", 8, 3) + b"\xff\xfe\x80" + bytes(64), "can't decode byte 0xff"),
    ],
)
def test_gguf_whose_metadata_cannot_be_read_is_rejected(tmp_path: Path, value: bytes, why: str) -> None:
    name, file = b"general.architecture", tmp_path / "small.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, len(name)) + name + value)
    for read in (headscope.load, unpacked_megabytes):
        with pytest.raises(ModelError, match=why):
            read(file)


def test_a_gguf_file_whose_vocabulary_is_padded_is_opened(written: GGUF, tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(written.field("llama.vocab_size", 90))
    with headscope.load(file) as scope:
        assert len(scope.look([96, 1]).tokens) == 2


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return census_folder(tmp_path_factory.mktemp("scan"))


LAYOUTS: dict[str, tuple[dict[str, Any], str]] = {
    "more heads": ({"sites": [["0", 400], ["1", 4]]}, r"count|sums of a tally has shape .* and its axes make"),
    "a million million heads": ({"sites": [["0", 10**12]]}, "of a tally has shape"),
    "fewer replicates": ({"replicates": 2}, "drawn_count of a tally has shape"),
    "more examples": ({"examples": 10**9}, r"best\.score of a tally has shape"),
    "an unknown axis": ({"planes": 3}, "planes"),
}


@pytest.mark.promise("Damaged files are errors")
@pytest.mark.parametrize("lie", LAYOUTS)
def test_a_tally_whose_axes_are_not_those_of_its_arrays_is_refused(census: Path, tmp_path: Path, lie: str) -> None:
    folder, (change, why) = Path(shutil.copytree(census, tmp_path / "census")), LAYOUTS[lie]
    header, body = split(folder / "tally.safetensors")
    about = json.loads(header["__metadata__"]["headscope"])
    about["layout"] |= change
    header["__metadata__"]["headscope"] = json.dumps(about)
    (folder / "tally.safetensors").write_bytes(joined(json.dumps(header), body))
    with pytest.raises(InputError, match=why):
        Census.load(folder)


@pytest.mark.parametrize("part", ["model", "corpus"])
def test_a_recipe_without_its_parts_is_refused(census: Path, tmp_path: Path, part: str) -> None:
    folder = Path(shutil.copytree(census, tmp_path / "census"))
    recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    (folder / "recipe.json").write_text(json.dumps(recipe | {part: []}), encoding="utf-8")
    with pytest.raises(InputError, match="is damaged or in a different format"):
        Census.load(folder)
