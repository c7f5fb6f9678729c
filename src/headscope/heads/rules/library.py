"""The built-in rules: position, copies, punctuation, words, sentences, lines, brackets and classes of tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.rule import FIRST_TOKEN, LabelPair, Rule, before, last, near

Marked = Callable[[TokenFeatures], Bool[Tensor, " token"]]
Numbered = Callable[[TokenFeatures], Int[Tensor, " token"]]

DECAYS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0)
NEAR = (3.0, 8.0, 24.0)
OFFSETS = 9


def position_rules(causal: bool = True) -> tuple[Rule, ...]:
    """Rules of position alone: the first token, offsets, decay with distance, all tokens alike."""
    found = [Rule(FIRST_TOKEN, "the first token", _everywhere, exclude_self=False, position=True, always=True)]
    found += [_offset(step) for step in range(OFFSETS)]
    if not causal:
        found += [_offset(-step) for step in range(1, OFFSETS)]
    alike = Rule("all tokens", "all tokens alike", _everywhere, exclude_self=False, position=True, always=True)
    found += [_decay(alike, distance) for distance in DECAYS]
    return (*found, alike)


def content_rules() -> tuple[Rule, ...]:
    """Rules that read the tokens."""
    found: list[Rule] = []
    for rule in (*_copies(), *_class_rules()):
        found += [rule, *(near(rule, distance) for distance in NEAR), last(rule)]
    return (*found, *_structure(), *_combined())


def built_in(causal: bool = True) -> tuple[Rule, ...]:
    """All built-in rules."""
    return (*position_rules(causal), *content_rules())


def _ids(text: TokenFeatures) -> Int[Tensor, " token"]:
    return text.ids


def _folded(text: TokenFeatures) -> Int[Tensor, " token"]:
    return text.folded


def _word(text: TokenFeatures) -> Int[Tensor, " token"]:
    return text.word


def _sentence(text: TokenFeatures) -> Int[Tensor, " token"]:
    return text.sentence


def _line(text: TokenFeatures) -> Int[Tensor, " token"]:
    return text.line


def _content(text: TokenFeatures) -> Bool[Tensor, " token"]:
    return text.is_content_word


def _everywhere(text: TokenFeatures) -> LabelPair:
    ones = torch.ones(len(text), dtype=torch.long)
    return ones, ones


def _offset(step: int) -> Rule:
    def labels(text: TokenFeatures) -> LabelPair:
        place = torch.arange(len(text))
        wanted = place - step
        return wanted.where((wanted >= 0) & (wanted < len(text)), -1), place

    names = {0: "itself", 1: "previous token", -1: "next token"}
    phrases = {0: "the token itself", 1: "the previous token", -1: "the next token"}
    way = "back" if step > 0 else "ahead"
    name = names.get(step, f"{abs(step)} {way}")
    phrase = phrases.get(step, f"the token {abs(step)} places {way}")
    return Rule(name, phrase, labels, exclude_self=False, position=True)


def _decay(alike: Rule, distance: float) -> Rule:
    return Rule(
        f"decay {distance:g}", f"recent tokens (within about {distance:g})", alike.labels, distance,
        exclude_self=False, position=True, always=True,
    )  # fmt: skip


def _same(numbers: Numbered, shift: int = 0, wanted: Marked | None = None) -> Callable[[TokenFeatures], LabelPair]:
    """Queries ask for keys whose ``shift``-th token back has their number."""

    def labels(text: TokenFeatures) -> LabelPair:
        number = numbers(text)
        query = number if wanted is None else number.where(wanted(text), -1)
        return query, _shifted(number, shift)

    return labels


def _shifted(numbers: Int[Tensor, " token"], shift: int) -> Int[Tensor, " token"]:
    if not shift:
        return numbers
    return torch.cat((numbers.new_full((min(shift, len(numbers)),), -1), numbers[:-shift]))


def _two(text: TokenFeatures) -> Int[Tensor, " token"]:
    """A number for each token and the one before it."""
    ids = text.ids
    return torch.where(_shifted(ids, 1) < 0, -1, _shifted(ids, 1) * 2**20 + ids)


def _copies() -> list[Rule]:
    return [
        Rule("copies", "earlier copies of the token", _same(_ids)),
        Rule("after a copy", "what followed an earlier copy", _same(_ids, 1)),
        Rule("after a copy of two", "what followed an earlier copy of the last two tokens", _same(_two, 1)),
        Rule(
            "after a copied content word", "what followed an earlier copy of a content word", _same(_ids, 1, _content)
        ),
        Rule("two after a copy", "what stood two places after an earlier copy", _same(_ids, 2)),
        Rule("same word anywhere", "the same word in any case or spacing", _same(_folded)),
        Rule("after the same word", "what followed the same word in any case or spacing", _same(_folded, 1)),
    ]


def _to(marked: Marked) -> Callable[[TokenFeatures], LabelPair]:
    """Every query asks for the marked keys."""

    def labels(text: TokenFeatures) -> LabelPair:
        return torch.ones(len(text), dtype=torch.long), torch.where(marked(text), 1, -1)

    return labels


_CLASS_RULES: tuple[tuple[str, str, Marked], ...] = (
    ("punctuation", "punctuation", lambda text: text.is_punctuation),
    ("separators", "line breaks and other separators", lambda text: text.is_separator),
    ("sentence ends", "ends of sentences", lambda text: text.ends_sentence),
    ("commas", "commas", lambda text: torch.tensor(["," in each for each in text.texts])),
    ("function words", "function words", lambda text: text.is_function_word),
    ("content words", "content words", lambda text: text.is_content_word),
    ("capitals", "capitalised words", lambda text: text.is_capital),
    ("digits", "digits", lambda text: text.is_digit),
    ("code tokens", "code tokens", lambda text: text.is_code),
    ("word pieces", "pieces inside words", lambda text: ~text.starts_word),
)


def _class_rules() -> list[Rule]:
    return [Rule(name, phrase, _to(marked)) for name, phrase, marked in _CLASS_RULES]


def _start_of(numbers: Numbered, previous: int = 0) -> Callable[[TokenFeatures], LabelPair]:
    """Queries ask for the first token of their own part (word, sentence, line), or of one before."""

    def labels(text: TokenFeatures) -> LabelPair:
        number = numbers(text)
        begins = torch.ones(len(number), dtype=torch.bool)
        begins[1:] = number[1:] != number[:-1]
        wanted = number - previous
        return wanted.where(wanted >= 0, -1), number.where(begins, -1)

    return labels


def _within(numbers: Numbered, previous: int = 0) -> Callable[[TokenFeatures], LabelPair]:
    """Queries ask for tokens of their own part, or of one before."""

    def labels(text: TokenFeatures) -> LabelPair:
        wanted = numbers(text) - previous
        return wanted.where(wanted >= 0, -1), numbers(text)

    return labels


def _bracket(text: TokenFeatures) -> LabelPair:
    return text.opening.where(text.closes, -1), torch.arange(len(text))


def _inside(text: TokenFeatures) -> LabelPair:
    return text.opening, torch.arange(len(text))


def _structure() -> list[Rule]:
    return [
        Rule("start of word", "the first piece of the word", _start_of(_word)),
        Rule("start of previous word", "the first piece of the previous word", _start_of(_word, 1)),
        Rule("start of sentence", "the first token of the sentence", _start_of(_sentence)),
        Rule("start of line", "the first token of the line", _start_of(_line)),
        Rule("start of previous line", "the first token of the line before", _start_of(_line, 1)),
        Rule("same word", "earlier pieces of the word", _within(_word)),
        Rule("previous word", "the previous word", _within(_word, 1)),
        Rule("word before the previous", "the word before the previous one", _within(_word, 2)),
        Rule("same sentence", "the same sentence", _within(_sentence)),
        Rule("previous sentence", "the sentence before", _within(_sentence, 1)),
        Rule("matching bracket", "the bracket or quote that the token closes", _bracket),
        Rule("open bracket", "the bracket or quote that is open", _inside),
    ]


def _combined() -> list[Rule]:
    classes = {rule.name: rule for rule in _class_rules()}
    return [
        near(before(classes["content words"], classes["punctuation"]), 24.0),
        near(before(classes["function words"], classes["content words"]), 8.0),
    ]
