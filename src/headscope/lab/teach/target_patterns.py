"""What the heads of a sentence might find: arrows between words, as far as they can be guessed."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from headscope.errors import InputError

SENTENCE = "The tired horse crossed the narrow road because it was late"
FEWEST_WORDS, MOST_WORDS = 2, 64

Arrow = tuple[int, int]


@dataclass(frozen=True)
class Target:
    """The pattern that one head should learn. ``arrows`` are (query, key) positions, each with its share of the row.

    Without ``shares`` the arrows of a row get equal parts. A row without a target attends to the first word, as an
    attention sink does.
    """

    name: str
    asks: str = ""
    arrows: tuple[Arrow, ...] = ()
    shares: tuple[float, ...] = ()


def split_words(sentence: str) -> list[str]:
    """Split into words and punctuation marks, one token each."""
    words = re.findall(r"[\w'’-]+|[^\w\s]", sentence)
    if len(words) < FEWEST_WORDS:
        found = "no word" if not words else f"one word, {words[0]!r}"
        raise InputError(f"the sentence has {found}; attention needs at least two, as in {SENTENCE!r}")
    if len(words) > MOST_WORDS:
        raise InputError(
            f"the sentence has {len(words)} words; at most {MOST_WORDS} can be fitted here. For longer texts use a "
            "trained model"
        )
    return words


def previous_token(words: Sequence[str]) -> Target:
    """Every word but the first attends to the one before it."""
    arrows = tuple((position, position - 1) for position in range(1, len(words)))
    return Target("Previous token", "What came just before?", arrows)


_MODIFIERS = ("young", "small", "old", "quiet", "hungry", "clever", "brown", "patient")
_SUBJECTS = ("horse", "teacher", "cat", "sailor", "queen", "robot", "gardener", "child")
_VERBS = ("crossed", "painted", "left", "followed", "found", "opened", "watched")
_OBJECT_MODIFIERS = ("narrow", "wet", "empty", "long", "strange", "bright")
_OBJECTS = ("road", "door", "garden", "box", "river", "letter")
_LINKS = ("because", "although", "when", "while")
_ENDINGS = ("late", "cold", "happy", "afraid", "thirsty")


def made_sentence(seed: int) -> str:
    """Draw a sentence from a small grammar, all of whose targets can be guessed; equal seeds give equal sentences."""
    draw = random.Random(seed)
    articles = [draw.choice(("the", "a", "every")) for _ in range(2)]
    subject_modifiers = draw.sample(_MODIFIERS, draw.choice((1, 1, 2)))
    has_adverb = draw.random() < 0.5
    words = [articles[0].capitalize(), *subject_modifiers, draw.choice(_SUBJECTS)]
    words += ["quickly"] * has_adverb + [draw.choice(_VERBS)]
    words += [articles[1], draw.choice(_OBJECT_MODIFIERS), draw.choice(_OBJECTS)]
    return " ".join([*words, draw.choice(_LINKS), "it", "was", draw.choice(_ENDINGS)])


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


DETERMINERS = _words(
    "the a an every each this that these those my your his her its our their some any no one two three many"
)
PRONOUNS = _words("it he she they him them himself herself itself themselves i we you me us who which")
REFERRING = _words("it he she they him them himself herself itself themselves who which")
AUXILIARIES = _words(
    "is was were are am be been has had have will would can could may might must shall should did does do "
    "isn't wasn't weren't aren't didn't doesn't don't won't can't couldn't wouldn't hasn't hadn't"
)
VERBS = _words(
    "saw went came ran sat stood gave took made said told asked found left kept held met knew thought felt heard read "
    "wrote drew drove rode flew fell rose spoke broke wore won lost bought brought caught taught sold built sent spent "
    "slept swept ate drank sang swam began hid bit hit cut put let shut set sees goes comes runs sits stands gives "
    "takes makes says tells asks finds leaves keeps holds meets knows thinks feels hears reads writes likes loves "
    "wants needs eats drinks sings sleeps chases hates follows crosses paints opens watches"
)
PREPOSITIONS = _words("of in on at to from by with for into over under after before through near about")
LINKS = _words("and or but because although when while if so since until though that than as")
ADVERBS = _words("not never always often soon then now here there very too quickly slowly again")
SAYING = _words("said thought knew felt says thinks knows feels")  # a clause may follow
MARKS = frozenset(".,;:!?\"'()")


@dataclass(frozen=True)
class _Phrase:
    """A noun phrase: where it begins and where its noun stands."""

    start: int
    noun: int
    is_pronoun: bool


def _is_verb(word: str) -> bool:
    return word in AUXILIARIES or word in VERBS or (word.endswith("ed") and len(word) > 4)


def _ends_phrase(word: str) -> bool:
    return _is_verb(word) or word in PREPOSITIONS | LINKS | ADVERBS | DETERMINERS | PRONOUNS | MARKS


def _phrases(words: Sequence[str]) -> list[_Phrase]:
    """Pronouns, names, and runs that begin with a determiner and end before a word of another class."""
    found: list[_Phrase] = []
    at = 0
    while at < len(words):
        word = words[at].lower()
        named = words[at][0].isupper() and not _ends_phrase(word)
        if word in PRONOUNS:
            found.append(_Phrase(at, at, True))
        elif word in DETERMINERS or named:
            end = at + 1
            # a word in -ed behind a determiner is a modifier if another word of the phrase follows: the tired horse
            while end < len(words) and (not _ends_phrase(words[end].lower()) or _modifies(words, at, end)):
                end += 1
            if named or end > at + 1:
                found.append(_Phrase(at, end - 1, False))
                at = end - 1
        at += 1
    return found


def _modifies(words: Sequence[str], start: int, at: int) -> bool:
    word, after = words[at].lower(), words[at + 1].lower() if at + 1 < len(words) else "."
    return at == start + 1 and word.endswith("ed") and word not in AUXILIARIES | VERBS and not _ends_phrase(after)


def sentence_targets(words: Sequence[str]) -> list[Target]:
    """Verb to subject, noun to modifier, pronoun to antecedent and previous token, as far as they can be guessed.

    Closed classes of English words cut the sentence into noun phrases and verbs. This is no parser: what it cannot
    place it leaves without an arrow.
    """
    phrases = _phrases(words)
    inside = {at for phrase in phrases if not phrase.is_pronoun for at in range(phrase.start, phrase.noun + 1)}
    return [
        Target("Verb to subject", "Who did it?", _subjects(words, phrases, inside)),
        Target("Noun to modifier", "What kind of thing?", _modifiers(words, phrases)),
        Target("Pronoun to antecedent", "Who is meant?", _antecedents(words, phrases)),
        previous_token(words),
    ]


def _subjects(words: Sequence[str], phrases: Sequence[_Phrase], inside: set[int]) -> tuple[Arrow, ...]:
    """Each verb reads the last noun or pronoun before it that is neither an object nor behind a preposition."""
    arrows: list[Arrow] = []
    for at, word in enumerate(words):
        if not _is_verb(word.lower()) or at in inside:
            continue
        before = [phrase.noun for phrase in phrases if phrase.noun < at and _may_act(words, phrase, inside)]
        if before:
            arrows.append((at, before[-1]))
    return tuple(arrows)


def _may_act(words: Sequence[str], phrase: _Phrase, inside: set[int]) -> bool:
    if phrase.start == 0:
        return True
    leading = words[phrase.start - 1].lower()
    is_object = _is_verb(leading) and phrase.start - 1 not in inside and leading not in SAYING
    return leading not in PREPOSITIONS and not is_object


def _modifiers(words: Sequence[str], phrases: Sequence[_Phrase]) -> tuple[Arrow, ...]:
    """Each noun reads the word before it in its phrase, if that is more than a determiner."""
    return tuple(
        (phrase.noun, phrase.noun - 1)
        for phrase in phrases
        if phrase.noun > phrase.start and words[phrase.noun - 1].lower() not in DETERMINERS
    )


def _antecedents(words: Sequence[str], phrases: Sequence[_Phrase]) -> tuple[Arrow, ...]:
    """A pronoun of the third person reads the first noun of the sentence; who and which read the noun before them."""
    arrows: list[Arrow] = []
    for phrase in phrases:
        word = words[phrase.noun].lower()
        nouns = [other.noun for other in phrases if not other.is_pronoun and other.noun < phrase.noun]
        if word in ("it", "itself", "which"):
            nouns = [noun for noun in nouns if not words[noun][0].isupper()]  # a name is he or she
        if phrase.is_pronoun and word in REFERRING and nouns:
            arrows.append((phrase.noun, nouns[-1] if word in ("who", "which") else nouns[0]))
    return tuple(arrows)
