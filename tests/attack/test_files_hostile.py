"""Files from strangers that are small and cost much: refused in a sentence, before they cost it."""

from __future__ import annotations

import io
import json
import struct
import wave
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from headscope.errors import InputError, ModelError
from headscope.heads.questions import label_rules
from headscope.heads.questions.label_rules import LabelRule, read_class, token_class
from headscope.models.config_checks import (
    MOST_ADDED_TOKENS,
    MOST_TENSORS,
    refuse_huge_headers,
    refuse_huge_tokenizers,
)
from headscope.models.inputs.media import Picture, Sound, read_bytes, resampled
from headscope.models.loading import open_model
from headscope.models.protocol import Token
from headscope.scan.corpus.file_formats import UnreadableError, parquet_texts

LARGE = 2**23


def labels(rule: LabelRule, text: str) -> list[int]:
    return list(rule.key([Token(0, text)]))


def test_a_pattern_that_backtracks_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_rules, "SECONDS_PER_TOKEN", 0.05)
    with pytest.raises(InputError, match=r"searched the token 'aaa.* without repeats inside repeats"):
        labels(token_class("x", "(a|aa)+$"), "a" * 60 + "b")


def test_the_pattern_of_the_report_answers() -> None:
    """The standard library's engine does not come back from this one."""
    assert labels(read_class("x=(-+)+x"), "-" * 60) == [-1]
    assert labels(read_class("x=(-+)+x"), "--x") == [1]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("((a{1000}){1000}){1000}", "counted repeats multiply to more than 1,000"),
        ("a{5000,}", "counted repeats multiply to more than 1,000"),
        ("(a{32}){32}", "counted repeats multiply to more than 1,000"),
        ("a{2,5000}", "counted repeats multiply to more than 1,000"),
        ("a{1,99999999999999999999999}", "counted repeats multiply to more than 1,000"),
        ("a" * 1001, "it has 1,001 characters, more than 1,000"),
        ("(" * 400 + ")" * 400, "is not a regular expression"),
        ("[", "is not a regular expression"),
    ],
)
def test_a_pattern_too_large_to_compile_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        token_class("x", pattern)


def test_usual_patterns_find_what_they_did() -> None:
    assert labels(token_class("digits", r"^\s*\d{1,3}(,\d{3})*$"), " 12,000") == [1]
    assert labels(token_class("letters", r"^\w+$"), "é") == [1], "letters of every script"
    assert labels(token_class("ahead", r"a(?=b)"), "ab") == [1]


def test_a_text_shared_by_all_rows_of_a_parquet_file_is_read_once(tmp_path: Path) -> None:
    """Kilobytes on the disk; 64 rows of a batch would be half a gigabyte."""
    table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), ["a " * (LARGE // 2)])})
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd")
    assert (tmp_path / "t.parquet").stat().st_size < 2**16
    pool = pa.default_memory_pool()
    before, texts = pool.bytes_allocated(), parquet_texts(tmp_path / "t.parquet", "text")
    next(texts)
    assert pool.bytes_allocated() - before < 8 * LARGE


def test_a_parquet_file_that_unpacks_a_thousandfold_is_refused(tmp_path: Path) -> None:
    rows = ["a" * 2**20 + str(row) for row in range(80)]
    pq.write_table(pa.table({"text": rows}), tmp_path / "t.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "t.parquet").stat().st_size < 2**17
    with pytest.raises(UnreadableError, match=r"row group 0: [\d,]+ bytes that unpack to [\d,]+; no text"):
        next(parquet_texts(tmp_path / "t.parquet", "text"))


def test_ordinary_parquet_files_are_read_as_before(tmp_path: Path) -> None:
    rows = [f"document {row}" for row in range(200)] + [None, "", "the end"]
    for options in ({"use_dictionary": False}, {"use_dictionary": True}, {"row_group_size": 7}):
        pq.write_table(pa.table({"text": rows, "n": list(range(203))}), tmp_path / "t.parquet", **options)
        read = [text for _, text in parquet_texts(tmp_path / "t.parquet", "text")]
        assert read == [row for row in rows if row]


def safetensors(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def test_a_million_empty_tensors_are_refused_before_they_are_listed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    entry = b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = b"{" + b",".join(entry % number for number in range(MOST_TENSORS + 1)) + b"}"
    (tmp_path / "model.safetensors").write_bytes(safetensors(header))
    with pytest.raises(ModelError, match=r"model\.safetensors has 200,002 tensors, and no model more than 200,000;"):
        open_model(tmp_path)


@pytest.mark.parametrize("claim", [2**63, 2**27])
def test_a_header_that_claims_to_be_huge_is_not_read(tmp_path: Path, claim: int) -> None:
    (tmp_path / "model.safetensors").write_bytes(claim.to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelError, match=rf"has a header of {claim:,} bytes, and no model more than"):
        refuse_huge_headers(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "added_tokens.json"])
def test_a_tokenizer_that_adds_hundreds_of_thousands_of_tokens_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    added = [{"content": str(number)} for number in range(MOST_ADDED_TOKENS + 1)]
    by_text = {entry["content"]: number for number, entry in enumerate(added)}
    (tmp_path / name).write_text(json.dumps(by_text if name == "added_tokens.json" else {"added_tokens": added}))
    with pytest.raises(ModelError, match=rf"{name} adds more tokens \(200,001\) than any model has \(200,000\)"):
        open_model(tmp_path)


def test_a_tokenizer_file_larger_than_any_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(2**28 + 1)  # no bytes on the disk
    with pytest.raises(ModelError, match=r"has 268,435,457 bytes; no tokenizer has more than 268,435,456"):
        refuse_huge_tokenizers(tmp_path)


def sound(rate: int, n_samples: int = 16) -> bytes:
    raw = io.BytesIO()
    with wave.open(raw, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(2 * n_samples))
    return raw.getvalue()[:24] + struct.pack("<I", rate) + raw.getvalue()[28:]


@pytest.mark.promise("Damaged files are errors")
@pytest.mark.parametrize("rate", [0, 768_001, 4_294_967_291])
def test_a_sound_whose_rate_would_make_a_filter_of_gigabytes_is_refused(rate: int) -> None:
    with pytest.raises(InputError, match=rf"has 16 bits per sample at {rate} Hz; give a .wav file"):
        read_bytes(sound(rate))
    with pytest.raises(InputError, match=rf"a sound of {rate} samples per second; recordings have 1 to 768,000"):
        resampled(Sound(np.zeros(16, dtype=np.float32), rate), 16_000)


def test_sounds_of_ordinary_rates_are_read() -> None:
    for rate in (8_000, 44_100, 384_000):
        read = read_bytes(sound(rate))
        assert isinstance(read, Sound)
        assert read.rate == rate


def picture(width: int, height: int) -> bytes:
    raw = io.BytesIO()
    Image.new("1", (width, height)).save(raw, "PNG")
    return raw.getvalue()


def test_a_picture_that_would_be_enlarged_to_gigabytes_is_refused() -> None:
    """Processors that make the shorter side 224 pixels make five thousand million of 1 × 100,000."""
    for size in ((1, 100_000), (100_000, 1), (2, 101)):
        with pytest.raises(InputError, match=rf"has {size[0]}×{size[1]} pixels, and one side may be at most 50 times"):
            read_bytes(picture(*size))
    assert isinstance(read_bytes(picture(2, 100)), Picture)
