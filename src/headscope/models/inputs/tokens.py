"""Tokenize text, chat messages and encoder-decoder pairs, or check token ids, and make model inputs of them."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from headscope.errors import InputError, first_line
from headscope.models.inputs.media import MediaProcessors, Picture, Sound, media_tensors
from headscope.models.protocol import Prepared, Token


class InputProcessor:
    """A tokenizer, if there is one, processors of images and sound, and the limits of the model they feed."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        vocabulary: int | None,
        context: int | None,
        start: int | None = None,
        media: MediaProcessors | None = None,
    ) -> None:
        self.tokenizer, self.vocabulary, self.context = tokenizer, vocabulary, context
        self.media = media or MediaProcessors()
        self.start = start
        """The first token of the decoder, in an encoder-decoder."""
        self._texts: dict[int, str] = {}
        self._tokens: dict[int, Token] = {}

    def prepare(self, given: Any) -> Prepared:
        """Text, token ids, chat messages, or a pair (source, target)."""
        if isinstance(given, str):
            return self._from_text(given)
        if isinstance(given, Tensor) and not given.is_floating_point():
            return self._from_ids(_ids_of_one_text(given))
        if isinstance(given, Sequence) and given and all(isinstance(item, Mapping) for item in given):
            return self._from_messages(given)
        if (
            isinstance(given, Sequence)
            and not isinstance(given, bytes)
            and all(type(item) is not bool and isinstance(item, int) for item in given)
        ):
            return self._from_ids(list(given))
        if isinstance(given, tuple) and len(given) == 2 and all(isinstance(item, str) for item in given):
            return self._from_pair(*given)
        raise InputError(
            f"cannot read {type(given).__name__}; give text, a list of token ids, messages as "
            "[{'role': …, 'content': …}], a pair (source, target), or tensors by name"
        )

    def media_inputs(
        self, medium: Picture | Sound, text: str | None, takes: frozenset[str], name: str
    ) -> dict[str, Tensor]:
        """A picture or sound as tensors; its text goes in with it, or is what the decoder has written so far."""
        inputs = media_tensors(medium, text, self.media, takes, name)
        if self.start is not None and "decoder_input_ids" in takes:
            for_encoder = text is None or "input_ids" in inputs
            inputs["decoder_input_ids"] = torch.tensor([[self.start]] if for_encoder else [self._written(str(text))])
        elif text is not None and "input_ids" not in inputs:
            raise InputError(f"{name} takes no text with it; give only the picture or sound")
        return inputs

    def tokens_of(self, ids: Int[Tensor, " token"]) -> tuple[Token, ...]:
        """The tokens with these ids, without character spans."""
        known, listed = self._tokens, ids.tolist()
        for token in set(listed).difference(known):
            known[token] = Token(token, self.text_of(token))
        return tuple([known[token] for token in listed])

    def decode(self, ids: Int[Tensor, " token"]) -> str:
        """The text of these ids; the ids themselves without a tokenizer."""
        if self.tokenizer is None:
            return " ".join(map(str, ids.tolist()))
        with _panics_as_errors("these tokens"):
            text = str(self.tokenizer.decode(ids.tolist(), skip_special_tokens=False))
        return _check_decoded(text, "these tokens")

    def token_id(self, token: str | int) -> int:
        """The id of a token given as text (with its leading space, where it has one) or as an id."""
        if isinstance(token, int):
            self.check([token])
            return token
        ids = self.token_ids(token)
        if len(ids) != 1:
            raise InputError(f"{token!r} is {len(ids)} tokens of this model, not one; give a single token or an id")
        return int(ids[0])

    def token_ids(self, text: str) -> list[int]:
        """The ids of a text, with no special tokens added; without a tokenizer, ids as ``decode`` writes them."""
        if self.tokenizer is None and (words := text.split()) and all(re.fullmatch("[0-9]{1,9}", one) for one in words):
            self.check([max(map(int, words))])
            return list(map(int, words))
        return list(self._encoded(text, "the text", add_special_tokens=False)["input_ids"])

    def token_ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts, with no special tokens added: by a fast tokenizer at once, on several cores."""
        if len(texts) > 1 and getattr(self.tokenizer, "is_fast", False):
            for text in texts:
                _check_text(text, "the text")
            with suppress(InputError), _panics_as_errors("the text"):  # one by one it is known which one is refused
                ids_alone = {"return_attention_mask": False, "return_token_type_ids": False}
                encoded = list(self.tokenizer(list(texts), add_special_tokens=False, **ids_alone)["input_ids"])
                for ids in encoded:
                    _check_tokens(ids, "the text")
                return encoded
        return [self.token_ids(text) for text in texts]

    def text_of(self, token: int) -> str:
        """The text of one token, its leading space included."""
        if token not in self._texts:
            self._texts[token] = f"[{token}]" if self.tokenizer is None else self._decode_one(token)
        return self._texts[token]

    def check(self, ids: Sequence[int], what: str = "the text") -> None:
        """Refuse ids outside the vocabulary, and more of them than the context holds."""
        if not ids:
            raise InputError(f"{what} is empty; there is nothing to look at")
        if not all(isinstance(token, int) for token in ids):
            raise InputError(f"{what} is not one list of token ids: it has {next(iter(ids))!r:.40}")
        if self.vocabulary is not None and (min(ids) < 0 or max(ids) >= self.vocabulary):
            wrong = next((token for token in ids if not 0 <= token < self.vocabulary), None)
            raise InputError(f"token {wrong} is outside this model's vocabulary of 0–{self.vocabulary - 1}")
        if self.context is not None and len(ids) > self.context:
            raise InputError(f"{what} has {len(ids)} tokens, and this model reads at most {self.context}; shorten it")

    def _from_text(self, text: str) -> Prepared:
        if not text.strip():
            raise InputError("the text is empty; there is nothing to look at")
        return self._tokenize(text, "the text")

    def _tokenize(self, text: str, what: str, **options: bool) -> Prepared:
        stray = next((index for index, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), None)
        if stray is not None:
            raise InputError(f"{what} is not UTF-8: letter {stray} is {text[stray]!r}, a stray byte or half of a pair")
        self._check_beginning(text, what)
        if getattr(self.tokenizer, "is_fast", False):
            options["return_offsets_mapping"] = True
        encoded = self._encoded(text, what, **options)
        ids = list(encoded["input_ids"])
        self.check(ids, what)
        tokens = tuple(
            Token(token, self.text_of(token), start if end > start else None, end if end > start else None)
            for token, (start, end) in zip(ids, encoded.get("offset_mapping", [(0, 0)] * len(ids)), strict=True)
        )
        return self._with_decoder(Prepared({"input_ids": torch.tensor([ids])}, tokens), [])

    def _from_ids(self, ids: list[int]) -> Prepared:
        self.check(ids, "the list of tokens")
        given = torch.tensor([ids])
        return self._with_decoder(Prepared({"input_ids": given}, self.tokens_of(given[0])), [])

    def _from_messages(self, messages: Sequence[Mapping[str, Any]]) -> Prepared:
        tokenizer = self._require_tokenizer("read messages")
        if not getattr(tokenizer, "chat_template", None):
            raise InputError("this model's tokenizer has no chat template; give it text instead of messages")
        return self._tokenize(render_conversation(tokenizer, messages), "the conversation", add_special_tokens=False)

    def _from_pair(self, source: str, target: str) -> Prepared:
        if self.start is None:
            raise InputError("a pair (source, target) is for encoder-decoders; this model reads one text")
        prepared = self._from_text(source)
        return self._with_decoder(prepared, self._written(target)[1:])

    def _written(self, target: str) -> list[int]:
        """The decoder's tokens after it has written this: the start token once, and no token that ends the text."""
        ids = list(self._encoded(target, "the target", target=True)["input_ids"])
        if ids and ids[-1] == self.tokenizer.eos_token_id:
            ids.pop()
        return ids if ids and ids[0] == self.start else [int(self.start or 0), *ids]

    def _with_decoder(self, prepared: Prepared, target: list[int]) -> Prepared:
        if self.start is None:
            return prepared
        ids = [self.start, *target]
        self.check(ids, "what was written so far")
        inputs = {**prepared.inputs, "decoder_input_ids": torch.tensor([ids])}
        return Prepared(inputs, prepared.tokens, self.tokens_of(inputs["decoder_input_ids"][0]))

    def _encoded(self, text: str, what: str, target: bool = False, **options: Any) -> Any:
        """Call the tokenizer within its limits; a target is what a decoder has written so far."""
        tokenizer = self._require_tokenizer("read text")
        _check_text(text, what)
        with _panics_as_errors(what):
            encoded = tokenizer(text_target=text) if target else tokenizer(text, **options)
        _check_tokens(encoded["input_ids"], what)
        return encoded

    def _check_beginning(self, text: str, what: str) -> None:
        """Refuse a long text by its beginning, before the rest of it is tokenized."""
        if self.context is not None and len(text) > BEGINNING:
            n_tokens = len(self.token_ids(text[:BEGINNING]))
            if n_tokens > self.context:
                raise InputError(
                    f"{what} has {len(text):,} characters; the first {BEGINNING:,} alone are {n_tokens:,} tokens, and "
                    f"this model reads at most {self.context}; shorten it"
                )

    def _require_tokenizer(self, purpose: str) -> Any:
        if self.tokenizer is None:
            raise InputError(f"no tokenizer was given, so this model cannot {purpose}; pass tokenizer=, or give ids")
        return self.tokenizer

    def _decode_one(self, token: int) -> str:
        with _panics_as_errors(f"token {token}"):
            text = str(self.tokenizer.decode([token], clean_up_tokenization_spaces=False))
        _check_decoded(text, f"token {token}")
        stored = self.tokenizer.convert_ids_to_tokens(token)
        if isinstance(stored, str) and stored.startswith("▁") and not text.startswith(" "):
            return " " + text
        return text if text or not isinstance(stored, str) else stored


def _ids_of_one_text(ids: Shaped[Tensor, "..."]) -> list[int]:
    if ids.dtype == torch.bool or ids.ndim not in (1, 2):
        raise InputError(
            f"cannot read a tensor of {ids.dtype} and shape {tuple(ids.shape)}; token ids are integers of shape "
            "(token) or (1, token)"
        )
    if ids.ndim == 2 and len(ids) > 1:
        raise InputError(f"token ids for several texts at once ({len(ids)}); look at one text at a time")
    flat: list[int] = ids.flatten().tolist()
    return flat


ADDED = (
    "{where} says that texts begin with a start token, and the tokenizer does not add it; headscope adds {token!r} "
    "({id})"
)


def gguf_start_token(fields: Mapping[str, Any]) -> tuple[bool | None, int | None]:
    """What a GGUF file's fields say: whether texts begin with a start token, and its id; None for what they lack."""
    add, token = (fields.get(f"tokenizer.ggml.{name}") for name in ("add_bos_token", "bos_token_id"))
    return None if add is None else bool(add.contents()), None if token is None else int(token.contents())


def add_start_token(tokenizer: Any, where: str, wanted: bool | None, start: int | None = None) -> str:
    """Make a tokenizer begin every text with the start token if that is ``wanted`` and it does not; return a note.

    ``wanted`` and ``start`` come from ``where``; without them, from the tokenizer's own settings.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return ""
    wanted = bool(tokenizer.init_kwargs.get("add_bos_token")) if wanted is None else wanted
    start = tokenizer.bos_token_id if start is None else start
    if not wanted or start is None or _first(tokenizer) == start:
        return ""
    token = tokenizer.convert_ids_to_tokens(start)
    before = f"{token}:0 $A:0"
    from tokenizers import processors

    add = processors.TemplateProcessing(single=before, pair=f"{before} $B:1", special_tokens=[(token, start)])
    own = backend.post_processor
    backend.post_processor = add if own is None else processors.Sequence([own, add])
    return ADDED.format(where=where, token=token, id=start) if _first(tokenizer) == start else ""


def _first(tokenizer: Any) -> int | None:
    ids = tokenizer("a")["input_ids"]
    return int(ids[0]) if len(ids) else None


MOST_CHARACTERS = 2**22
"""Most characters of a text that is read, and of one that a template or a decoder writes."""
MOST_TOKENS = 2**24
"""Most tokens that a tokenizer may make of a text: a token per byte, at the most bytes per character."""
BEGINNING = 2**17
"""Characters of a long text that are tokenized first: if they exceed the context, the rest is not."""
TEMPLATE_SECONDS = 10.0


@contextmanager
def _panics_as_errors(what: str) -> Iterator[None]:
    """Turn a panic of the tokenizers library, which no ``except Exception`` catches, into an InputError.

    Its errors are bare Exceptions, and become one too.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        raise InputError(
            f"this model's tokenizer fails on {what} ({first_line(error)}); its rules are broken: use another "
            "tokenizer, or give ids"
        ) from None


def _check_text(text: str, what: str) -> None:
    """Refuse a text that is too long to be tokenized at once."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{what} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read at once")


def _check_tokens(ids: Sequence[int], what: str) -> None:
    """Refuse what a tokenizer made of a text if it is too many tokens."""
    if len(ids) > MOST_TOKENS:
        raise InputError(
            f"this model's tokenizer makes {len(ids):,} tokens of {what}, and at most {MOST_TOKENS:,} are read; its "
            "rules are broken: use another tokenizer, or give ids"
        )


def _check_decoded(text: str, what: str) -> str:
    """Return what a tokenizer's decoder wrote; reject it if it is too long."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"this model's tokenizer writes {len(text):,} characters for {what}, and at most {MOST_CHARACTERS:,} are "
            "shown; its rules are broken: use another tokenizer"
        )
    return text


def render_conversation(tokenizer: Any, messages: Sequence[Mapping[str, Any]]) -> str:
    """Render messages by the tokenizer's chat template, a program in transformers' sandbox, within a time limit."""
    try:
        json.dumps(list(messages))
    except TypeError as error:
        raise InputError(
            f"the conversation contains something that is not text: {error}; roles and contents are strings"
        ) from None
    try:
        with _stopped_after(TEMPLATE_SECONDS):
            text = str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
    except Exception as error:
        why = first_line(error)
    else:
        if len(text) <= MOST_CHARACTERS:
            return text
        why = f"it makes {len(text):,} characters; at most {MOST_CHARACTERS:,} are read at once"
    raise InputError(
        f"this model's chat template fails on the conversation ({why}); its rules are broken: give text instead of "
        "messages"
    )


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raise TimeoutError at the first line of Python that this thread runs after so many seconds."""
    end, before = time.monotonic() + seconds, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > end:
            raise TimeoutError(f"it takes more than {seconds:g} seconds")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
