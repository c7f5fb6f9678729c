"""Read training text (.txt or .jsonl, plain, .gz or .xz), split off held-out documents, and tokenize."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor

from headscope.errors import InputError
from headscope.files import parsing, write_atomic
from headscope.lab.train.batches import TokenStream
from headscope.lab.train.options import TrainingOptions

START = "<|start|>"
START_ID = 0
SMALLEST_VOCABULARY = 257
WORDS = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE of at most ``vocabulary`` tokens; equal texts give equal tokenizers."""
    if vocabulary < SMALLEST_VOCABULARY:
        raise InputError(
            f"{vocabulary=} is too small: the start token and the 256 bytes alone are {SMALLEST_VOCABULARY}"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[START],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[(START, START_ID)])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, context: int) -> None:
    """Write tokenizer.json and tokenizer_config.json, as transformers' AutoTokenizer reads them."""
    write_atomic(folder / "tokenizer.json", tokenizer.to_str(pretty=False).encode())
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "eos_token": START,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    write_atomic(folder / "tokenizer_config.json", (json.dumps(config, indent=2) + "\n").encode())


def load_tokenizer(file: Path) -> Tokenizer:
    """Load a tokenizer.json of a training run; reject one without our start token."""
    with parsing(str(file), "give a tokenizer.json that a training run wrote"):
        tokenizer = Tokenizer.from_file(str(file))
    if tokenizer.token_to_id(START) != START_ID:
        raise InputError(f"{file} has no {START} as token {START_ID}; train one with train_tokenizer")
    return tokenizer


CHUNK, BATCH = 100_000, 256  # characters tokenized at once, and chunks per batch
MANY_DOCUMENTS = 50
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class TextFile:
    """A text file and its sampling weight, by default its number of tokens."""

    path: Path
    weight: float | None = None


@dataclass(frozen=True)
class Document:
    """One text. A JSON line with ``"split": "valid"`` is held out."""

    title: str
    text: str
    held_out: bool = False


def read_documents(path: Path) -> list[Document]:
    """Read every document of a file that is not blank."""
    try:
        with _open(path) as file:
            found = list(_json_lines(path, file)) if ".jsonl" in path.suffixes else [Document(path.name, file.read())]
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as problem:
        raise InputError(f"{path} cannot be read: {problem}") from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not UTF-8 text: {problem.reason} at byte {problem.start}") from problem
    documents = [document for document in found if document.text.strip()]
    if not documents:
        raise InputError(f"{path} has no text; give a file with text")
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
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as problem:
            raise InputError(f'{path}, line {number}: not a JSON object with a "text" ({problem!r})') from problem


def split(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Split into training and held-out documents: the marked ones, else the last of many, else the end of the last."""
    held_out = [document for document in documents if document.held_out]
    if held_out:
        return [document for document in documents if not document.held_out], held_out
    if len(documents) >= MANY_DOCUMENTS:
        return list(documents[:-1]), list(documents[-1:])
    last = documents[-1]
    end = len(last.text) - len(last.text) // 20
    return [*documents[:-1], Document(last.title, last.text[:end])], [Document(last.title, last.text[end:])]


def encode(tokenizer: Tokenizer, documents: Iterable[Document]) -> Int[Tensor, " token"]:
    """Tokenize and concatenate documents, each after a start token."""
    chunks = [(number == 0, chunk) for each in documents for number, chunk in enumerate(_chunks(each.text))]
    rows: list[np.ndarray[Any, Any]] = []
    for at in range(0, len(chunks), BATCH):
        begins, texts = zip(*chunks[at : at + BATCH], strict=True)
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        for begin, encoding in zip(begins, encodings, strict=True):
            rows.append(np.array([START_ID] * begin + encoding.ids, dtype=np.int32))
    return torch.from_numpy(np.concatenate(rows)) if rows else torch.zeros(0, dtype=torch.int32)


def text_hash(documents: Iterable[Document]) -> str:
    """SHA-256 of all texts, in order."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(document.text.encode() + b"\0")
    return digest.hexdigest()


def _chunks(text: str) -> Iterator[str]:
    """Divide a long text at line ends, so that it is tokenized on several cores."""
    start = 0
    while start < len(text):
        stop = start + CHUNK
        if stop < len(text):
            newline = text.rfind("\n", start, stop)
            stop = newline if newline > start else stop
        yield text[start:stop]
        start = stop


@dataclass(frozen=True)
class TrainingData:
    """The tokenized text: training streams, the first file's held-out tokens, a hash of all text."""

    tokenizer: Tokenizer
    streams: list[TokenStream]
    held_out: Int[Tensor, " token"]
    text_hash: str


def prepare(texts: Sequence[TextFile], options: TrainingOptions, out: Path) -> TrainingData:
    """Read the texts, train or load the tokenizer, and tokenize."""
    if not texts:
        raise InputError("training needs at least one text file")
    read = [split(read_documents(text.path)) for text in texts]
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer([document for training, _ in read for document in training], options, out)
    streams = []
    for text, (training, _) in zip(texts, read, strict=True):
        tokens = encode(tokenizer, training)
        longest = max(options.context, options.long_context or 0)
        if len(tokens) < longest + 2:
            raise InputError(
                f"{text.path} has {len(tokens)} tokens for training, fewer than the context of {longest}; "
                "give more text, or a shorter context"
            )
        weight = float(len(tokens)) if text.weight is None else text.weight
        streams.append(TokenStream(text.path.name, tokens, weight))
    digest = text_hash(document for training, held_out in read for document in [*training, *held_out])
    return TrainingData(tokenizer, streams, encode(tokenizer, read[0][1]), digest)


def recipe(options: TrainingOptions, data: TrainingData) -> dict[str, Any]:
    """The settings and data that determine a run: a checkpoint is resumed only with an equal recipe."""
    elsewhere = {"device", "checkpoint_seconds", "tokenizer", "film_points"}
    chosen = {name: value for name, value in asdict(options).items() if name not in elsewhere}
    weights = {stream.name: stream.weight for stream in data.streams}
    return chosen | {"text": data.text_hash, "weights": weights}


def _tokenizer(documents: Sequence[Document], options: TrainingOptions, out: Path) -> Tokenizer:
    kept = out / "tokenizer.json"
    if options.tokenizer is not None:
        return load_tokenizer(options.tokenizer)
    if kept.exists() and (out / "checkpoint.safetensors").exists():
        return load_tokenizer(kept)
    tokenizer = train_tokenizer((document.text for document in documents), options.vocabulary)
    save_tokenizer(tokenizer, out, options.long_context or options.context)
    return tokenizer
