"""What the page is told, computed: the only file of the app that touches a Scope.

A session belongs to one model. Its methods run in a worker thread, one at a time (the server holds the lock), and keep
the last few looks, so that a second request about the same text costs no second reading.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.app.pages import attribution, schema
from headscope.app.pages.head_scores import QUESTIONS, site_answers
from headscope.app.pages.predictions import changed, edits_of, guesses, logits_under, sampled
from headscope.app.pages.roles import featured_card, model_title, roles_card, shipped
from headscope.app.pages.tiles import Views
from headscope.app.wire import Arrays, numbers
from headscope.attention.progress import progress_callback
from headscope.errors import InputError
from headscope.heads.look.edits import Edit
from headscope.heads.look.look import Look
from headscope.heads.questions.standard_questions import answerable, standard_questions
from headscope.heads.roles.report import Report
from headscope.models.protocol import Token
from headscope.names import Site
from headscope.scan.measure import threads
from headscope.scope import Scope

Kept = TypeVar("Kept")

KEPT_LOOKS = 32
KEPT_BYTES = 2 * 2**30  # of all kept looks together; the latest is kept whatever it weighs
KEPT_TEXTS = 512
KEPT_EDITS = 64
LONGEST = 16_384  # tokens that a page shows
LONG_TEXT = 2_048  # tokens from which a reading takes seconds, and is worth every core however small the model
CORES = torch.get_num_threads()
WEIGHED = 1_024  # tokens of a text on which the heads' importance is measured


class ForgottenLookError(InputError):
    """The page speaks of a text that is no longer kept; it reads it to us again."""


@dataclass(frozen=True)
class Opened:
    """A text the page has open: what was read of it, and how long it was."""

    name: str
    text: str
    source: str | list[int]
    look: Look
    length: int
    views: Views


class Session:
    """The questions the page may put to one model."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._looks: OrderedDict[str, Opened] = OrderedDict()
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._edited: OrderedDict[tuple[str, str, int], Tensor] = OrderedDict()
        self._weighed: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self.progress = schema.Progress()
        self._tested: Report | None = None
        self._testing = False

    def model(self) -> schema.ModelCard:
        shape = self.scope.shape
        return schema.ModelCard(
            name=shape.name,
            title=self.title,
            d_model=shape.d_model,
            vocabulary=shape.vocabulary,
            context=shape.context,
            trained=shape.trained,
            sites=[_site_card(site) for site in shape.sites.values()],
            questions=list(QUESTIONS),
            notes=list(self.scope.notes),
        )

    @property
    def title(self) -> str:
        """What a person calls this model."""
        return model_title(self.scope)

    @cached_property
    def parameters(self) -> int:
        """How many numbers this model has learned."""
        return sum(weight.numel() for weight in self.scope.model.model.parameters())

    def look(self, asked: schema.LookRequest) -> tuple[schema.LookCard, Arrays]:
        with self._telling():
            opened = self._open_text(asked.text) if asked.text is not None else self._open(asked.look or "")
        look = opened.look
        sites = self.scope.shape.sites.values()
        answers = [site_answers(look, site) for site in sites]
        tokens = torch.tensor([[token.id for token in look.tokens]])
        causal = all(site.causal for site in sites)
        asked_at = {name: int(answerable(each, causal).sum()) for name, each in standard_questions(tokens).items()}
        card = schema.LookCard(
            look=opened.name,
            text=opened.text,
            tokens=[_token_card(token) for token in look.tokens],
            written=[] if look.written is look.tokens else [_token_card(token) for token in look.written],
            read=len(look.tokens),
            length=opened.length,
            asked=[asked_at.get(question.name, len(look.tokens) - 1) for question in QUESTIONS],
        )
        pictures = [opened.views.thumbnails(site) for site in sites]
        return card, {"answers": np.concatenate(answers, axis=1), "thumbnails": np.concatenate(pictures)}

    def weights(self, asked: schema.WeightsRequest) -> tuple[schema.WeightsCard, Arrays]:
        with self._telling():
            card, found = self._open(asked.look).views.rectangle(asked)
        return card, {"weights": numbers(found)}

    def mix(self, asked: schema.MixRequest) -> tuple[schema.MixCard, Arrays]:
        return attribution.mix(self._open(asked.look).look, asked)

    def token(self, asked: schema.TokenRequest) -> schema.FoundToken:
        """The token a person means by what they typed."""
        return attribution.find_token(self.scope.model, asked.text)

    def predict(self, asked: schema.PredictRequest) -> schema.Prediction:
        opened = self._open(asked.look)
        look = opened.look
        place, edits = look.position(asked.position), edits_of(asked, look)
        off = list(dict.fromkeys(asked.off))
        card = schema.Prediction(
            look=asked.look, position=place, off=off, cuts=asked.cuts, how=asked.how, guesses=[], without=None, kl=None
        )
        if self.scope.shape.vocabulary is None:
            return card
        card = card.model_copy(update={"guesses": guesses(look, place, asked.count)})
        if asked.sampling is not None:
            card = card.model_copy(update={"sampled": sampled(look.logits[place], asked.sampling, card.guesses)})
        return changed(card, look.logits[place], self._under(opened, place, edits)) if edits else card

    def importance(self, asked: schema.ImportanceRequest) -> tuple[schema.ImportanceCard, Arrays]:
        """Every head's first-order importance on (the beginning of) this text."""
        opened = self._open(asked.look)
        ids = [token.id for token in opened.look.tokens[:WEIGHED]]
        if opened.name not in self._weighed:
            whole = len(ids) == len(opened.look.tokens)
            found = self.scope.importance([opened.source if whole else ids], how="gradient")
            by_head = {each.head: each.loss.mean for each in found}
            weighed = np.array([by_head[head] for head in self.scope.shape.heads()], dtype=np.float32)
            _keep(self._weighed, opened.name, weighed, KEPT_TEXTS)
        return schema.ImportanceCard(look=asked.look, read=len(ids)), {"importance": self._weighed[opened.name]}

    def featured(self) -> schema.Featured:
        """What papers say of this model's heads, beside what has been tested of them here."""
        return featured_card(self.scope.shape, self._tested or self._shipped)

    def roles(self) -> schema.Roles:
        """What the heads are called, as far as they have been tested. Waits for nothing."""
        report = self._tested or self._shipped
        if report is None:
            return schema.Roles(state="testing" if self._testing else "untested")
        return roles_card(report, [str(head) for head in self.scope.shape.heads()])

    def test_heads(self) -> schema.Roles:
        """The battery, once a model."""
        if self._tested is None and self._shipped is None:
            self._testing = True
            try:
                self._tested = self.scope.heads()
            finally:
                self._testing = False
        return self.roles()

    @cached_property
    def _shipped(self) -> Report | None:
        return shipped(self.scope)

    def adopt(self, look: Look) -> str:
        """Take in a look that somebody already has; its name."""
        ids = [token.id for token in look.tokens]
        typed = [token for token in look.tokens if token.start is not None]  # not what the tokenizer added
        text = "".join(token.text for token in typed or look.tokens)
        name = hashlib.sha256(repr(ids).encode()).hexdigest()[:16]
        return self._keep_look(Opened(name, text, ids, look, len(ids), Views(look))).name

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """While something long is done, ``progress`` says how far it is; it is read without waiting for the model."""

        def hear(what: str, done: int, total: int) -> None:
            self.progress = schema.Progress(what=what, done=done, total=total)

        try:
            with progress_callback(hear):
                yield
        finally:
            self.progress = schema.Progress()

    def _open_text(self, text: str) -> Opened:
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        _keep(self._texts, name, text, KEPT_TEXTS)
        return self._open(name)

    def _open(self, name: str) -> Opened:
        if name in self._looks:
            self._looks.move_to_end(name)
            return self._looks[name]
        if name not in self._texts:
            raise ForgottenLookError(f"the text of look {name!r} is no longer kept; type or paste it again")
        return self._keep_look(self._read(name, self._texts[name]))

    def forget(self) -> None:
        """Let go of every look; the page reads its text to us again when it needs one."""
        self._looks.clear()
        self._edited.clear()

    def _keep_look(self, opened: Opened) -> Opened:
        _keep(self._looks, opened.name, opened, KEPT_LOOKS)
        while len(self._looks) > 1 and sum(_weight(kept.look) for kept in self._looks.values()) > KEPT_BYTES:
            self._looks.popitem(last=False)
        return opened

    def _read(self, name: str, text: str) -> Opened:
        """The text as far as the model reads it."""
        if not text.strip():
            raise InputError("this text is empty; type a sentence")
        most = min(LONGEST, self.scope.shape.context or LONGEST)
        ids = self.scope.model.processor.token_ids(text) if len(text) > most // 2 else []
        source = text if len(ids) <= most else ids[:most]
        with threads(CORES) if len(ids) > LONG_TEXT else nullcontext():
            look = self.scope.look(source)
        return Opened(name, text, source, look, max(len(ids), len(look.tokens)), Views(look))

    def _under(self, opened: Opened, place: int, edits: list[Edit]) -> Tensor:
        """The logits at one place, read again under these edits."""
        key = (opened.name, "|".join(sorted(edit.key() for edit in edits)), place)
        if key not in self._edited:
            logits = logits_under(opened.look, edits)[place].clone()
            return _keep(self._edited, key, logits, KEPT_EDITS)
        return self._edited[key]


def _weight(look: Look) -> int:
    """About how many bytes a look holds: q, k, z and what went through W_O at every site, and the logits."""
    sites = look.shape.sites.values()
    per_token = sum(
        site.n_heads * site.d_head + site.n_kv_heads * site.d_head + 2 * site.n_heads * site.d_value for site in sites
    )
    return 4 * len(look.tokens) * (per_token + len(sites) * look.shape.d_model + (look.shape.vocabulary or 0))


def _keep(kept: OrderedDict[Any, Kept], key: Any, value: Kept, most: int) -> Kept:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
    return value


def _site_card(site: Site) -> schema.SiteCard:
    queries: schema.Stream = "written" if site.name.startswith("decoder") else "text"
    return schema.SiteCard(
        name=site.name,
        n_heads=site.n_heads,
        n_kv_heads=site.n_kv_heads,
        d_head=site.d_head,
        d_value=site.d_value,
        kind=site.kind,
        causal=site.causal,
        window=site.window,
        queries=queries,
        keys="text" if site.kind == "cross" else queries,
    )


def _token_card(token: Token) -> schema.TokenCard:
    return schema.TokenCard(text=token.text, id=token.id, start=token.start, end=token.end)
