"""Text files in, tokens out: .txt or .jsonl, plain, .gz or .xz; documents joined by the start token."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor

from headscope.errors import InputError
from headscope.lab.train.tokenizer import START_ID

PIECE = 100_000
MANY = 50
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class TextFile:
    """A file of text, and how often rows are taken from it (by its size unless told)."""

    path: Path
    weight: float | None = None


@dataclass(frozen=True)
class Document:
    """One text. A line of JSON that says ``"split": "valid"`` is held out of training."""

    title: str
    text: str
    held_out: bool = False


def read_documents(path: Path) -> list[Document]:
    """Every document of a file that has any text in it."""
    try:
        with _open(path) as file:
            found = list(_json_lines(path, file)) if ".jsonl" in path.suffixes else [Document(path.name, file.read())]
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as problem:
        raise InputError(f"{path} cannot be read: {problem}") from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not UTF-8 text: {problem.reason} at byte {problem.start}") from problem
    documents = [document for document in found if document.text.strip()]
    if not documents:
        raise InputError(f"{path} has no text in it; training needs something to read")
    return documents


def _open(path: Path) -> TextIOWrapper:
    opener = OPENERS.get(path.suffix)
    stream: TextIOWrapper = opener(path, "rt", encoding="utf-8-sig") if opener else path.open(encoding="utf-8-sig")
    return stream


def _json_lines(path: Path, file: Iterable[str]) -> Iterator[Document]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            title = str(record.get("title") or record.get("path") or number)
            text = record["text"]
            text.encode()  # half of a surrogate pair is a string, but no text
            yield Document(title, text, record.get("split") == "valid")
        except (ValueError, KeyError, AttributeError, RecursionError) as problem:
            raise InputError(f"{path}, line {number}: not a JSON object with a text in it ({problem!r})") from problem


def split(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Documents to learn from, and those held out: the marked ones, else the last of many, else the end of the last."""
    unseen = [document for document in documents if document.held_out]
    if unseen:
        return [document for document in documents if not document.held_out], unseen
    if len(documents) >= MANY:
        return list(documents[:-1]), list(documents[-1:])
    last = documents[-1]
    cut = len(last.text) - len(last.text) // 20
    return [*documents[:-1], Document(last.title, last.text[:cut])], [Document(last.title, last.text[cut:])]


def encode(tokenizer: Tokenizer, documents: Iterable[Document]) -> Int[Tensor, " token"]:
    """One long row of tokens, every document after a start token."""
    rows: list[np.ndarray[Any, Any]] = []
    batch: list[str] = []
    begins: list[bool] = []

    def flush() -> None:
        for begin, encoding in zip(begins, tokenizer.encode_batch_fast(batch, add_special_tokens=False), strict=True):
            if begin:
                rows.append(np.array([START_ID], dtype=np.int32))
            rows.append(np.asarray(encoding.ids, dtype=np.int32))
        batch.clear()
        begins.clear()

    for document in documents:
        for number, piece in enumerate(_pieces(document.text)):
            batch.append(piece)
            begins.append(number == 0)
            if len(batch) >= 256:
                flush()
    flush()
    return torch.from_numpy(np.concatenate(rows)) if rows else torch.zeros(0, dtype=torch.int32)


def fingerprint(documents: Iterable[Document]) -> str:
    """A hash of all the text, in order."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(document.text.encode() + b"\0")
    return digest.hexdigest()


def _pieces(text: str) -> Iterator[str]:
    """A long text cut at line ends, so that several cores can work on it."""
    start = 0
    while start < len(text):
        stop = start + PIECE
        if stop < len(text):
            newline = text.rfind("\n", start, stop)
            stop = newline if newline > start else stop
        yield text[start:stop]
        start = stop
