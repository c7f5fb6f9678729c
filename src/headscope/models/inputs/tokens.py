"""What a person gives, made ready for a model: text, token ids, messages, or tensors of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from headscope.errors import InputError
from headscope.models.inputs.media import Picture, Processors, Sound, tensors_of
from headscope.models.protocol import Prepared, Token


class Reader:
    """A tokenizer, if there is one, and the limits of the model it feeds."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        vocabulary: int | None,
        context: int | None,
        start: int | None = None,
        processors: Processors | None = None,
    ) -> None:
        self.tokenizer, self.vocabulary, self.context = tokenizer, vocabulary, context
        self.processors = processors or Processors()
        self.start = start
        """The token a decoder begins with, in models that read one text and write another."""
        self._known: dict[int, str] = {}

    def prepare(self, given: Any) -> Prepared:
        """Text, token ids, or messages."""
        if isinstance(given, str):
            return self._text(given)
        if isinstance(given, Tensor) and not given.is_floating_point():
            return self._ids(_one_text(given))
        if isinstance(given, Sequence) and given and all(isinstance(item, Mapping) for item in given):
            return self._messages(given)
        if isinstance(given, Sequence) and all(type(item) is not bool and isinstance(item, int) for item in given):
            return self._ids(list(given))
        if isinstance(given, tuple) and len(given) == 2 and all(isinstance(item, str) for item in given):
            return self._pair(*given)
        raise InputError(
            f"cannot read {type(given).__name__}; give text, a list of token ids, messages as "
            "[{'role': …, 'content': …}], a pair (source, target), or tensors by name"
        )

    def medium(self, medium: Picture | Sound, words: str | None, takes: frozenset[str], name: str) -> dict[str, Tensor]:
        """A picture or a sound as tensors; its words stand beside it, or are what a decoder has written so far."""
        made = tensors_of(medium, words, self.processors, takes, name)
        if self.start is not None and "decoder_input_ids" in takes:
            beside = words is None or "input_ids" in made
            target = [] if beside else self._need("read text")(text_target=words)["input_ids"]
            made["decoder_input_ids"] = torch.tensor([[self.start, *target]])
        elif words is not None and "input_ids" not in made:
            raise InputError(f"{name} has no place for a text beside it; give the picture or sound alone")
        return made

    def tokens_of(self, ids: Int[Tensor, " token"]) -> tuple[Token, ...]:
        return tuple(Token(int(token), self.reads(int(token))) for token in ids)

    def decode(self, ids: Int[Tensor, " token"]) -> str:
        if self.tokenizer is None:
            return " ".join(str(int(token)) for token in ids)
        return str(self.tokenizer.decode(ids.tolist(), skip_special_tokens=False))

    def token_ids(self, text: str) -> list[int]:
        """The ids of a piece of text, with no special tokens added."""
        return list(self._need("read text")(text, add_special_tokens=False)["input_ids"])

    def reads(self, token: int) -> str:
        """How one token reads, its leading space included."""
        if token not in self._known:
            self._known[token] = f"[{token}]" if self.tokenizer is None else self._as_text(token)
        return self._known[token]

    def check(self, ids: Sequence[int], what: str = "the text") -> None:
        """Ids that the model can read, and not more than it can hold."""
        if not ids:
            raise InputError(f"{what} is empty; there is nothing to look at")
        if self.vocabulary is not None:
            wrong = next((token for token in ids if not 0 <= token < self.vocabulary), None)
            if wrong is not None:
                raise InputError(f"token {wrong} is outside this model's vocabulary of 0–{self.vocabulary - 1}")
        if self.context is not None and len(ids) > self.context:
            raise InputError(f"{what} has {len(ids)} tokens, and this model reads at most {self.context}; shorten it")

    def _text(self, text: str) -> Prepared:
        if not text.strip():
            raise InputError("the text is empty; there is nothing to look at")
        return self._read_text(text, "the text")

    def _read_text(self, text: str, what: str, **how: bool) -> Prepared:
        stray = next((place for place, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), None)
        if stray is not None:
            raise InputError(f"{what} is not UTF-8: letter {stray} is {text[stray]!r}, a stray byte or half of a pair")
        tokenizer = self._need("read text")
        fast = bool(getattr(tokenizer, "is_fast", False))
        read = tokenizer(text, return_offsets_mapping=True, **how) if fast else tokenizer(text, **how)
        ids = list(read["input_ids"])
        self.check(ids, what)
        places = read["offset_mapping"] if fast else [(0, 0)] * len(ids)
        tokens = tuple(
            Token(token, self.reads(token), start if end > start else None, end if end > start else None)
            for token, (start, end) in zip(ids, places, strict=True)
        )
        return self._with_target(Prepared({"input_ids": torch.tensor([ids])}, tokens), [])

    def _ids(self, ids: list[int]) -> Prepared:
        self.check(ids, "the list of tokens")
        made = Prepared({"input_ids": torch.tensor([ids])}, self.tokens_of(torch.tensor(ids)))
        return self._with_target(made, [])

    def _messages(self, messages: Sequence[Mapping[str, Any]]) -> Prepared:
        tokenizer = self._need("read messages")
        if not getattr(tokenizer, "chat_template", None):
            raise InputError("this model's tokenizer has no chat template; give it text instead of messages")
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        return self._read_text(text, "the conversation", add_special_tokens=False)

    def _pair(self, source: str, target: str) -> Prepared:
        if self.start is None:
            raise InputError(
                "a pair (source, target) is for models that read one text and write another; this one reads one"
            )
        made = self._text(source)
        return self._with_target(made, list(self._need("read text")(text_target=target)["input_ids"]))

    def _with_target(self, made: Prepared, target: list[int]) -> Prepared:
        if self.start is None:
            return made
        ids = [self.start, *target]
        self.check(ids, "what was written so far")
        inputs = dict(made.inputs) | {"decoder_input_ids": torch.tensor([ids])}
        return Prepared(inputs, made.tokens, self.tokens_of(torch.tensor(ids)))

    def _need(self, purpose: str) -> Any:
        if self.tokenizer is None:
            raise InputError(f"no tokenizer was given, so this model cannot {purpose}; pass tokenizer=, or give ids")
        return self.tokenizer

    def _as_text(self, token: int) -> str:
        text = str(self.tokenizer.decode([token], clean_up_tokenization_spaces=False))
        piece = self.tokenizer.convert_ids_to_tokens(token)
        if isinstance(piece, str) and piece.startswith("▁") and not text.startswith(" "):
            return " " + text
        return text if text or not isinstance(piece, str) else piece


class Reading:
    """The part of an opened model that its reader does, whichever seam leads into it."""

    reader: Reader

    def tokens_of(self, ids: Int[Tensor, " token"]) -> tuple[Token, ...]:
        return self.reader.tokens_of(ids)

    def decode(self, ids: Int[Tensor, " token"]) -> str:
        return self.reader.decode(ids)

    def token_ids(self, text: str) -> list[int]:
        return self.reader.token_ids(text)


def _one_text(ids: Shaped[Tensor, "..."]) -> list[int]:
    """The ids of a tensor that holds those of one text."""
    if ids.dtype == torch.bool or ids.ndim not in (1, 2):
        raise InputError(
            f"cannot read a tensor of {ids.dtype} and shape {tuple(ids.shape)}; token ids are integers of shape "
            "(token) or (1, token)"
        )
    if ids.ndim == 2 and len(ids) > 1:
        raise InputError(f"token ids for several texts at once ({len(ids)}); look at one text at a time")
    return [int(token) for token in ids.flatten()]
