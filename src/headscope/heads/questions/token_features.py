"""What rules know of a text: each token's word, sentence, line, class and bracket, computed from the tokens' texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.models.protocol import Token

_FUNCTION = """
a about after again all also although am an and any are as at be because been before being between both but by
can could did do does down each either else ever every few for from had has have he her here hers him his how i if
in into is it its just like may me might mine more most much must my neither never no nor not now of off on once
one only or other our out over own same shall she should since so some still such than that the their them then
there these they this those though through till to too under until up upon us very was we were what when where
whether which while who whom whose why will with within without would yet you your yours"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
_CODE = """
assert async await break class continue def del elif else except finally for from global if import in is lambda
none nonlocal not or pass raise return self true false try while with yield"""
CODE_WORDS = frozenset(_CODE.split())
CLASSES = ("first", "function", "content", "capital", "piece", "punctuation", "separator", "number")
"""Classes of tokens for class tables: the first token is one of its own, ``number`` holds digits and operators too."""

_SENTENCE_END = re.compile(r"[.!?…]")
_PAIRS = {")": "(", "]": "[", "}": "{", "”": "“", "»": "«"}
_PUNCTUATION = re.compile(r"^[^\w\s]+$")
_OPERATOR = re.compile(r"[=<>+*/%&|^~@#\\$_{}\[\]()]")


@dataclass(frozen=True)
class TokenFeatures:
    """The tokens of one text and what follows from their texts alone; everything is computed when first asked for."""

    tokens: tuple[Token, ...]

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> TokenFeatures:
        return cls(tuple(tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> Int[Tensor, " token"]:
        return torch.tensor([token.id for token in self.tokens])

    @cached_property
    def texts(self) -> list[str]:
        return [token.text for token in self.tokens]

    @cached_property
    def bare(self) -> list[str]:
        """Texts in lower case, without the spaces around them."""
        return [text.strip().lower() for text in self.texts]

    @cached_property
    def folded(self) -> Int[Tensor, " token"]:
        """A number per token that is equal for the same word in another case or with another space; −1 for spaces."""
        numbers: dict[str, int] = {}
        return torch.tensor([numbers.setdefault(text, len(numbers)) if text else -1 for text in self.bare])

    @cached_property
    def starts_word(self) -> Bool[Tensor, " token"]:
        """A token continues a word if a letter or digit stands on both sides of its beginning.

        Where no token holds a space, a tokenizer drops them: each token is a word, unless it is marked (``##ing``).
        """
        spaced = any(text != text.strip() for text in self.texts)
        glued = [False, *(self._continues(place, spaced) for place in range(1, len(self.texts)))]
        if len(glued) > 1 and bool(self.is_separator[0]):
            glued[1] = False  # after a start token a word begins, whatever its text ends with
        return ~torch.tensor(glued, dtype=torch.bool)

    def _continues(self, place: int, spaced: bool) -> bool:
        text, last = self.texts[place], self.texts[place - 1]
        if text.startswith("##"):
            return True
        return spaced and bool(text) and bool(last) and _wordlike(text[0]) and _wordlike(last[-1])

    @cached_property
    def word(self) -> Int[Tensor, " token"]:
        """The number of the word that a token is part of; punctuation is a word of its own."""
        return self.starts_word.long().cumsum(0) - 1

    @cached_property
    def is_newline(self) -> Bool[Tensor, " token"]:
        return self._where(lambda text: "\n" in text)

    @cached_property
    def is_punctuation(self) -> Bool[Tensor, " token"]:
        return torch.tensor([bool(_PUNCTUATION.match(text)) for text in self.bare])

    @cached_property
    def is_separator(self) -> Bool[Tensor, " token"]:
        """Line breaks, and tokens that a tokenizer added (start, end, turns of a conversation)."""
        marked = re.compile(r"^<[^<>]+>$|^\[[A-Z]+\]$|^<\|.*\|>$")
        return self.is_newline | torch.tensor([bool(marked.match(text.strip())) for text in self.texts])

    @cached_property
    def ends_sentence(self) -> Bool[Tensor, " token"]:
        return (self._where(lambda text: bool(_SENTENCE_END.search(text))) & self.is_punctuation) | self.is_newline

    @cached_property
    def sentence(self) -> Int[Tensor, " token"]:
        """The number of a token's sentence; what ends one belongs to it."""
        return _counted_after(self.ends_sentence)

    @cached_property
    def line(self) -> Int[Tensor, " token"]:
        return _counted_after(self.is_newline)

    @cached_property
    def is_function_word(self) -> Bool[Tensor, " token"]:
        return torch.tensor([text in FUNCTION_WORDS for text in self.bare]) & self.starts_word

    @cached_property
    def is_capital(self) -> Bool[Tensor, " token"]:
        return self._where(lambda text: text.strip()[:1].isupper()) & self.starts_word

    @cached_property
    def is_digit(self) -> Bool[Tensor, " token"]:
        return self._where(lambda text: any(letter.isdigit() for letter in text))

    @cached_property
    def is_code(self) -> Bool[Tensor, " token"]:
        return torch.tensor([bool(_OPERATOR.search(text)) or text in CODE_WORDS for text in self.bare])

    @cached_property
    def is_content_word(self) -> Bool[Tensor, " token"]:
        """The beginning of a word that is no function word."""
        letters = self._where(lambda text: any(letter.isalpha() for letter in text))
        return letters & self.starts_word & ~self.is_function_word & ~self.is_separator

    @cached_property
    def token_class(self) -> Int[Tensor, " token"]:
        """One of ``CLASSES`` for each token."""
        found = torch.full((len(self),), CLASSES.index("number"))
        pieces = self._where(lambda text: any(letter.isalpha() for letter in text)) & ~self.starts_word
        for name, marked in (
            ("piece", pieces), ("content", self.is_content_word), ("capital", self.is_capital),
            ("function", self.is_function_word), ("punctuation", self.is_punctuation), ("separator", self.is_separator),
        ):  # fmt: skip
            found[marked] = CLASSES.index(name)
        found[:1] = CLASSES.index("first")
        return found

    @cached_property
    def opening(self) -> Int[Tensor, " token"]:
        """The position of the bracket or quote that each token is inside of, or that it closes; −1 for none.

        A straight quote opens where none is open in its paragraph, else closes; brackets that do not fit are ignored.
        """
        stack: list[tuple[str, int]] = []
        found = []
        for place, text in enumerate(self.texts):
            inside = stack[-1][1] if stack else -1
            for letter in text:
                if letter == "\n":
                    stack = [entry for entry in stack if entry[0] != '"']
                wanted = _PAIRS.get(letter, letter if letter == '"' else None)
                if wanted is not None and any(entry[0] == wanted for entry in stack):
                    while stack[-1][0] != wanted:
                        stack.pop()
                    inside = stack.pop()[1]
                elif letter in _PAIRS.values() or letter == '"':
                    stack.append((letter, place))
            found.append(inside)
        return torch.tensor(found)

    @cached_property
    def closes(self) -> Bool[Tensor, " token"]:
        """Tokens that close a bracket or quote."""
        letters = set(_PAIRS) | {'"'}
        return self._where(lambda text: any(letter in letters for letter in text)) & (self.opening >= 0)

    def _where(self, test: object) -> Bool[Tensor, " token"]:
        return torch.tensor([bool(test(text)) for text in self.texts])  # type: ignore[operator]


def _wordlike(letter: str) -> bool:
    return letter.isalnum() or letter in "'’"


def _counted_after(ends: Bool[Tensor, " token"]) -> Int[Tensor, " token"]:
    """How many ends lie before each token."""
    return ends.long().cumsum(0) - ends.long()
