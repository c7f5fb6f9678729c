"""Any bytes in a corpus file are read or refused with an error, and no character of a valid text is lost."""

from __future__ import annotations

import gzip
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headscope.errors import HeadscopeError
from headscope.lab.cards.card import card
from headscope.scan.corpus.documents import Corpus

SUFFIXES = (".txt", ".jsonl", ".json", ".parquet", ".txt.gz", ".jsonl.xz", ".txt.bz2", ".jsonl.zst", "")


def read(data: bytes, suffix: str, **options: Any) -> tuple[list[str], list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"corpus{suffix}"
        file.write_bytes(data)
        corpus = Corpus(file, **options)
        return [passage.text for passage in corpus], corpus.problems


@given(st.binary(max_size=400), st.sampled_from(SUFFIXES), st.booleans(), st.sampled_from(["stop", "skip"]))
@settings(deadline=None, max_examples=300)
@example(b"\x1f\x8b", ".txt.gz", False, "stop")
@example(b'{"text": "\\ud800"}\n', ".jsonl", False, "skip")
@example(b"\xef\xbb\xbf\x00", ".txt", True, "skip")
def test_any_bytes_are_read_or_refused(data: bytes, suffix: str, lines: bool, broken: str) -> None:
    texts, problems = read(data, suffix, lines=lines, broken=broken)
    assert all(text.strip() for text in texts)
    assert all(problem.count("\n") == 0 and len(problem) > 10 for problem in problems)


# no NUL, which means binary data, no byte order mark, which a decoder removes, and no surrogates
GOOD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), max_size=200)


@given(GOOD, st.sampled_from([".txt", ".txt.gz"]))
@settings(deadline=None)
def test_no_character_of_a_valid_text_is_lost(text: str, suffix: str) -> None:
    data = text.encode() if suffix == ".txt" else gzip.compress(text.encode())
    texts, problems = read(data, suffix)
    assert problems == []
    assert "".join(texts) == (text if text.strip() else "")


@given(st.lists(GOOD, max_size=6))
@settings(deadline=None)
def test_every_document_of_a_json_file_is_read(documents: list[str]) -> None:
    data = "".join(json.dumps({"text": text}) + "\n" for text in documents).encode()
    texts, problems = read(data, ".jsonl")
    assert (texts, problems) == ([text for text in documents if text.strip()], [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers", "vocab_size", "head_dim",
     "intermediate_size", "model_type", "max_position_embeddings", "tie_word_embeddings", "architectures"]
)  # fmt: skip


@given(st.dictionaries(KEYS, JSON, max_size=11))
@settings(deadline=None, max_examples=300)
def test_any_config_gives_a_card_or_a_headscope_error(config: dict[str, object]) -> None:
    with suppress(HeadscopeError):  # any other error fails the test
        assert card(config).model.n_heads >= 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_file_of_every_kind(suffix: str) -> None:
    texts, _ = read(b"", suffix)
    assert texts == []
