"""Train the tokenizer so that the words of the behaviours are whole: names, days, months, numbers, letters.

A word is one token inside a sentence (with the space before it) and at the start of a text (without).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bench.curriculum import people, sequences, words
from bench.curriculum.held_out import NAMES, PLACES, THINGS
from tokenizers import Tokenizer

from headscope.heads.roles.probes import grammar, text_probes
from headscope.heads.roles.probes.token_probes import SEQUENCES
from headscope.lab.train.text_files import train_tokenizer

BOTH_WAYS = 10_000  # times that a word is counted as a text of its own: more than the rarest merge of the corpus
INSIDE = 5_000


def whole_words() -> tuple[list[str], list[str]]:
    """Words that are whole at the start of a text as well, and words that are whole inside a sentence."""
    ordered = {word for members in (*sequences.KINDS, *SEQUENCES.values()) for word in members if word.isalpha()}
    names = {*NAMES, *people.WOMEN, *people.MEN}
    probes = {word for members in grammar.WORDS.values() for word in members}
    probes |= {*text_probes.GIFTS, *text_probes.CONTENTS, *text_probes.COLOURS, *text_probes.SHOPS, *THINGS, *PLACES}
    both = sorted(ordered | names | {"When", "Then", "While", "After", "The"})
    return both, sorted((probes | {*words.ADVERBS}) - {*both})


def weighted(texts: Iterable[str], both: Iterable[str], inside: Iterable[str]) -> Iterator[str]:
    """The texts, and each word as often as it takes to become one token."""
    yield from texts
    for word in both:
        yield "\n".join([word] * BOTH_WAYS)
        yield " ".join(["", *[word] * BOTH_WAYS])
    for word in inside:
        yield " ".join(["", *[word] * INSIDE])


def train(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE of this size in which the words above are whole."""
    return train_tokenizer(weighted(texts, *whole_words()), vocabulary)
