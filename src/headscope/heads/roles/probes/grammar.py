"""A small grammar of English sentences with a known arc: a query word, its target and a distractor.

Templates mark three words: ``<q…>`` is the query, ``<t…>`` its target, ``<d…>`` a distractor of the target's class.
``<t:person>`` draws a word of a class, ``<t=not>`` is that word, ``{person}`` draws one unmarked. Distances vary, so no
fixed offset gives the answer, and the nearer of target and distractor is not always the target (but for adjectives: in
English the nearest one is the noun's). A few words come before each sentence, so that no target is the first token, on
which many heads attend.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORDS: dict[str, tuple[str, ...]] = {
    "woman": split_words("Mary Anne Jane Alice Emma Lucy Kate Rose Helen Clara Sarah Laura Julia Amy Emily Susan"),
    "man": split_words("John James George William Henry Charles Thomas Robert Peter Paul David Adam Simon Tom Frank"),
    "person": split_words(
        "doctor teacher king farmer soldier captain lady sailor nurse lawyer writer servant boy girl"
    ),
    "verb": split_words("slept laughed smiled danced cried sang ran waited prayed coughed worked waved"),
    "adjective": split_words("old red small black white great green young dark new heavy blue"),
    "material": split_words("iron stone paper silver gold glass"),
    "place": split_words("garden kitchen village school church town"),
    "object": split_words("table door box house book chair clock window lamp wall cup bell"),
    "feeling": split_words("tired happy angry afraid hungry glad sad ill rich poor sorry ready"),
    "adverb": split_words("very quite rather always often still"),
}

COREFERENCE = (
    "<t:same> saw <d:other> in the garden because <q=he> was late.",
    "<d:other> saw <t:same> in the garden because <q=he> was late.",
    "<t:same> wrote to <d:other>, but <q=he> was ill.",
    "<d:other> wrote to <t:same>, but <q=he> was ill.",
    "Before <d:other> came home, <t:same> said that <q=he> was tired.",
    "When <t:same> met <d:other> on the road near the old church, <q=he> smiled.",
    "While <d:other> slept, <t:same> read a long letter, and then <q=he> left.",
    "<t:same> was poor and <d:other> was rich, so <q=he> worked.",
)
VERB_TO_SUBJECT = (
    "The <t:person> near the <d:person> <q:verb> again.",
    "The <t:person> who had met the <d:person> <q:verb> again.",
    "The <t:person> with the <d:person> in the garden <q:verb> again.",
    "Behind the <d:person> the <t:person> <q:verb> again.",
    "When the <d:person> had gone, the <t:person> <q:verb> again.",
    "After the <d:person> came, the <t:person> in the garden <q:verb> again.",
    "The <t:person> that the <d:person> knew <q:verb> again.",
    "The <t:person>, as we told the <d:person>, <q:verb> again.",
)
NOUN_TO_MODIFIER = (
    "The <d:adjective> {person} saw the <t:adjective> <q:object> there.",
    "The <d:adjective> {person} saw the <t:adjective> {material} <q:object> there.",
    "The <d:adjective> {person} saw the <t:adjective> {material} {place} <q:object> there.",
    "Of all <d:adjective> things this <t:adjective> <q:object> was the best.",
    "Of all <d:adjective> things this <t:adjective> {place} <q:object> was the best.",
    "We knew a <d:adjective> {person} and a <t:adjective>, so to speak, <q:object> then.",
)
NEGATION = (
    "{woman} was <d:adverb> {feeling}, but {man} was <t=not> <q:feeling> then.",
    "{man} was <d:adverb> {feeling}, but {woman} was <t=not> yet <q:feeling> then.",
    "{man} was <d:adverb> {feeling}, but {woman} was <t=not> in the least <q:feeling> then.",
    "{woman} was <t=not> even <d:adverb> <q:feeling> then.",
    "{man} was <t=not> in our eyes <d:adverb> <q:feeling> then.",
    "{man} had <t=not>, I think, been <d:adverb> <q:feeling> then.",
)

LEAD = "It was late. "
_MARK = re.compile(r"<([qtd])([:=])(\w+)>|\{(\w+)\}")


@dataclass(frozen=True)
class _Arc:
    """A sentence and three of its words, as spans of characters."""

    text: str
    query: tuple[int, int]
    target: tuple[int, int]
    distractor: tuple[int, int]


def arcs(templates: Sequence[str], count: int, seed: int) -> list[_Arc]:
    """Fill the templates in turn until there are ``count`` sentences; equal seeds give equal sentences."""
    draw = random.Random(seed)
    return [_fill(templates[number % len(templates)], draw) for number in range(count)]


def _fill(template: str, draw: random.Random) -> _Arc:
    """Fill one template; words of one class never repeat in it."""
    classes = _choices(draw)
    taken: set[str] = set()
    text, spans, at = LEAD, {}, 0
    for mark in _MARK.finditer(template):
        text += template[at : mark.start()]
        role, how, named, plain = mark.groups()
        word = named if how == "=" else _draw(classes, plain or named, taken, draw)
        if word == "he" and classes["same"] is WORDS["woman"]:
            word = "she"
        if role:
            spans[role] = (len(text), len(text) + len(word))
        text, at = text + word, mark.end()
    return _Arc(text + template[at:], spans["q"], spans["t"], spans["d"])


def filler(count: int, seed: int) -> list[str]:
    """Plain sentences that no probe asks about."""
    return [arc.text.removeprefix(LEAD) for arc in arcs(VERB_TO_SUBJECT + NOUN_TO_MODIFIER, count, seed)]


def _choices(draw: random.Random) -> Mapping[str, tuple[str, ...]]:
    genders = [WORDS["woman"], WORDS["man"]]
    draw.shuffle(genders)
    return {**WORDS, "same": genders[0], "other": genders[1]}


def _draw(words: Mapping[str, tuple[str, ...]], kind: str, taken: set[str], draw: random.Random) -> str:
    word = draw.choice([word for word in words[kind] if word not in taken])
    taken.add(word)
    return word
