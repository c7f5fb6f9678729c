"""The data of a training run: texts read, split and tokenized, and the recipe by which a checkpoint is resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.film import FilmTask
from headscope.lab.train.batches import TokenStream
from headscope.lab.train.options import TrainingOptions
from headscope.lab.train.text_files import (
    Document,
    TextFile,
    encode,
    encode_marked,
    read_documents,
    split,
    text_hash,
)
from headscope.lab.train.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer


@dataclass(frozen=True)
class TrainingData:
    """The tokenized text: training streams, the first file's held-out tokens, a hash of all text, tasks to film."""

    tokenizer: Tokenizer
    streams: list[TokenStream]
    held_out: Int[Tensor, " token"]
    text_hash: str
    tasks: Mapping[str, FilmTask] = field(default_factory=dict)


def prepare(texts: Sequence[TextFile], options: TrainingOptions, out: Path) -> TrainingData:
    """Read the texts, train or load the tokenizer, and tokenize."""
    if not texts:
        raise InputError("training needs at least one text file")
    read = [split(read_documents(text.path)) for text in texts]
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer([document for training, _ in read for document in training], options, out)
    streams = []
    for text, (training, _) in zip(texts, read, strict=True):
        tokens, marked = encode_marked(tokenizer, training)
        longest = max(options.context, options.long_context or 0)
        if len(tokens) < longest + 2:
            raise InputError(
                f"{text.path} has {len(tokens)} tokens for training, fewer than the context of {longest}; "
                "give more text, or a shorter context"
            )
        weight = float(len(tokens)) if text.weight is None else text.weight
        streams.append(TokenStream(text.path.name, tokens, weight, text.long_weight, marked))
    digest = text_hash(document for training, held_out in read for document in [*training, *held_out])
    return TrainingData(tokenizer, streams, encode(tokenizer, read[0][1]), digest)


def recipe(options: TrainingOptions, data: TrainingData) -> dict[str, Any]:
    """The settings and data that determine a run: a checkpoint is resumed only with an equal recipe."""
    elsewhere = {"device", "checkpoint_seconds", "tokenizer", "film_points"}
    chosen = {name: value for name, value in asdict(options).items() if name not in elsewhere}
    weights = {stream.name: [stream.weight, stream.long_weight] for stream in data.streams}
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
