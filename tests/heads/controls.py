"""Positive controls: models with hand-written weights for one role each, and a tokenizer of whole words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from torch import Tensor

from headscope.attention.masks import full
from headscope.heads.roles.probes import grammar as probe_grammar
from headscope.heads.roles.probes import text_probes
from headscope.heads.roles.probes.token_probes import SEQUENCES
from headscope.lab.teach.tiny_transformer import TinyBlock, TinyConfig, TinyTransformer
from headscope.models.native import NativeModel
from tests.lab.by_hand import HandModel, HandSizes, read, write_token

PLACES = 96


def all_words() -> list[str]:
    """Every word that any English probe can use."""
    grammar = (
        probe_grammar.COREFERENCE,
        probe_grammar.VERB_TO_SUBJECT,
        probe_grammar.NOUN_TO_MODIFIER,
        probe_grammar.NEGATION,
    )
    texts = [re.sub(r"[<{][qtd]?[:=]?", " ", template) for each in grammar for template in each]
    texts += [*text_probes.GIVING, probe_grammar.LEAD, "So we know that The box holds the horse she"]
    lists = (*probe_grammar.WORDS.values(), *SEQUENCES.values())
    more = (text_probes.SHOPS, text_probes.GIFTS, text_probes.COLOURS, text_probes.CONTENTS, *lists)
    found = {word for text in texts for word in re.findall(r"\w+|[^\w\s]", text)}
    return sorted(found | {word for each in more for word in each})


WORDS = ["<s>", "<other>", *all_words()]
WORDS += [f"spare{number}" for number in range(len(WORDS) % 2)]
SIZES = HandSizes(vocabulary=len(WORDS), context=PLACES)
AT = {word: place for place, word in enumerate(WORDS)}


def word_tokenizer() -> Tokenizer:
    """A token a word, and a start token before every text."""
    tokenizer = Tokenizer(models.WordLevel(AT, unk_token="<other>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), "isolated")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


def opened(model: HandModel, *, text: bool = True) -> NativeModel:
    return NativeModel(model, word_tokenizer() if text else None, model.role)


def words(columns: Iterable[Iterable[str]]) -> Tensor:
    """A column for each class of words, 1 where a token is in it."""
    table = torch.zeros(SIZES.vocabulary, 0)
    for column in columns:
        marked = torch.zeros(SIZES.vocabulary, 1)
        marked[[AT[word] for word in column]] = 1
        table = torch.cat((table, marked), dim=1)
    return table


def token(columns: Tensor, at: int = 0) -> Tensor:
    return read(SIZES, SIZES.token, columns, at=at)


def later(at: int, step: float = 0.02) -> Tensor:
    """A key that grows with its place: among equals, the latest wins."""
    return read(SIZES, SIZES.position, torch.arange(PLACES)[:, None] * step, at=at)


def always(at: int = 0) -> Tensor:
    return read(SIZES, SIZES.position, torch.ones(PLACES, 1), at=at)


def back(steps: int) -> tuple[Tensor, Tensor]:
    """Query and key of a head that looks so many places back (below 0: ahead)."""
    wanted = torch.arange(PLACES).sub(steps).clamp(min=0, max=PLACES - 1)
    return read(SIZES, SIZES.position, torch.eye(PLACES)[wanted]), read(SIZES, SIZES.position)


W = probe_grammar.WORDS
PEOPLE = W["woman"] + W["man"]
VALUE = read(SIZES, SIZES.token)
SILENT = write_token(SIZES, SIZES.answer, copy=False)


def coreference() -> HandModel:
    model = HandModel("coreference", SIZES, 1)
    model.write(0, token(words([["he"], ["she"]])), token(words([W["man"], W["woman"]])), VALUE, SILENT)
    return model


def negation() -> HandModel:
    model = HandModel("negation", SIZES, 1)
    model.write(0, token(words([W["feeling"]])), token(words([["not"]])), VALUE, SILENT)
    return model


def noun_to_modifier() -> HandModel:
    """A noun asks for adjectives, the latest first."""
    model = HandModel("noun to modifier", SIZES, 1)
    query = token(words([W["object"], W["object"]]))
    model.write(0, query, token(words([W["adjective"]])) + later(1), VALUE, SILENT)
    return model


def verb_to_subject() -> HandModel:
    """The first layer notes the token two places back; the second asks for people, but none two after a preposition."""
    model = HandModel("verb to subject", SIZES, 2)
    model.write(0, *back(2), VALUE, write_token(SIZES, SIZES.note, copy=True))
    before = words([["near", "that", "met", "with", "Behind", "When", "After", "told"]])
    key = token(words([W["person"]])) - read(SIZES, SIZES.note, before)
    model.write(1, token(words([W["verb"]])), key, VALUE, SILENT)
    return model


def giving(sign: float) -> HandModel:
    """Duplicate token, S-inhibition, name mover (or its negative): the smallest circuit that finds the receiver."""
    model = HandModel("giving", SIZES, 3)
    place = read(SIZES, SIZES.position, at=SIZES.vocabulary)
    note = write_token(SIZES, SIZES.note, copy=True)
    model.write(0, VALUE - 2 * place, VALUE + place, VALUE, note)
    asks, names = words([["to"]]), words([PEOPLE])
    model.write(1, token(asks), read(SIZES, SIZES.note, names), VALUE, note)
    against = read(SIZES, SIZES.note, at=1)
    key = token(names) + read(SIZES, SIZES.token, torch.eye(SIZES.vocabulary), at=1)
    model.write(2, token(asks) - 2 * against, key, VALUE, sign * write_token(SIZES, SIZES.answer, copy=True))
    return model


def retrieval() -> HandModel:
    """Things and articles note the latest colour; then an article asks for the thing with its own colour."""
    model = HandModel("retrieval", SIZES, 2)
    asking = [*text_probes.CONTENTS, "the"]
    colours = words([text_probes.COLOURS])
    model.write(
        0,
        token(words([asking, asking])),
        token(colours) + later(1, 0.01),
        VALUE,
        write_token(SIZES, SIZES.note, copy=True),
    )
    tint = read(SIZES, SIZES.note, words([[colour] for colour in text_probes.COLOURS]), at=1)
    model.write(1, token(words([["the"]])) + tint, token(words([text_probes.CONTENTS])) + tint, VALUE,
                write_token(SIZES, SIZES.answer, copy=True))  # fmt: skip
    return model


def successor() -> HandModel:
    """It looks everywhere alike, and says what comes next after what it reads."""
    model = HandModel("successor", SIZES, 1)
    following = torch.zeros(SIZES.vocabulary, SIZES.vocabulary)
    for members in SEQUENCES.values():
        for one, other in pairwise(members):
            following[AT[one], AT[other]] = 1
    output = torch.zeros(SIZES.d_head, SIZES.d_model)
    output[: SIZES.vocabulary, SIZES.answer] = following
    model.write(0, 0 * VALUE, 0 * VALUE, VALUE, output)
    return model


def next_token() -> HandModel:
    model = HandModel("next token", SIZES, 1)
    block = model.blocks[0]
    assert isinstance(block, TinyBlock)
    block.mask = full()
    model.write(0, *back(-1), VALUE, SILENT)
    return model


@dataclass(frozen=True)
class Control:
    """A model, and for each of its heads the roles that it plays."""

    make: Callable[[], HandModel]
    plays: dict[str, set[str]]


CONTROLS = {
    "coreference": Control(coreference, {"0.0": {"coreference"}}),
    "negation": Control(negation, {"0.0": {"negation"}}),
    "noun to modifier": Control(noun_to_modifier, {"0.0": {"noun to modifier"}}),
    "verb to subject": Control(verb_to_subject, {"1.0": {"verb to subject"}}),
    "giving": Control(
        lambda: giving(1.0), {"0.0": {"duplicate token"}, "1.0": {"S-inhibition"}, "2.0": {"name mover", "copying"}}
    ),
    "giving, negative": Control(lambda: giving(-1.0), {"0.0": {"duplicate token"}, "2.0": {"negative name mover"}}),
    "retrieval": Control(retrieval, {"1.0": {"retrieval", "copying"}}),
    "successor": Control(successor, {"0.0": {"successor"}}),
    "next token": Control(next_token, {"0.0": {"next token"}}),
}


def random_model(seed: int) -> NativeModel:
    """Weights drawn anew; the queries of some are longer, so that their patterns are sharp."""
    config = TinyConfig(
        vocabulary=SIZES.vocabulary, context=PLACES, d_model=32, n_layers=2, n_heads=4, d_ff=32, norm=True
    )
    model = TinyTransformer(config)
    model.initialise(seed)
    for layer in range(config.n_layers):
        model.attention(layer).q_proj.weight.data *= 2.0 ** (seed % 4)
    return NativeModel(model, word_tokenizer(), f"random {seed}")
