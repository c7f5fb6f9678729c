"""Train, save and load a byte-level BPE tokenizer.

It encodes any string, because the 256 bytes are tokens. Digits are single tokens; words include the space before
them. Token 0 is the start of a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from headscope.errors import InputError
from headscope.files import parsing, write_atomic

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
    """Load a tokenizer.json of a training run; one without our start token is refused."""
    with parsing(str(file), "give a tokenizer.json that a training run wrote"):
        tokenizer = Tokenizer.from_file(str(file))
    if tokenizer.token_to_id(START) != START_ID:
        raise InputError(f"{file} has no {START} as token {START_ID}; train one with train_tokenizer")
    return tokenizer
