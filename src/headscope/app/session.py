"""What the page is told, computed: the only file of the app that touches a Scope.

A session belongs to one model. Its methods run in a worker thread, one at a time (the server holds the lock), and keep
the last few looks, so that a second request about the same text costs no second reading.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.app import schema
from headscope.app.answers import QUESTIONS, site_answers
from headscope.app.roles import roles_card, shipped
from headscope.errors import InputError
from headscope.heads.edits import ablate
from headscope.heads.look import Look
from headscope.heads.report import Report
from headscope.heads.standard import answerable, standard_questions
from headscope.models.opened import Token
from headscope.names import Head, Site
from headscope.scope import Scope

Arrays = dict[str, NDArray[Any]]
Kept = TypeVar("Kept")

KEPT_LOOKS = 32
KEPT_BYTES = 2 * 2**30  # of all kept looks together; the latest is kept whatever it weighs
KEPT_TEXTS = 512
KEPT_EDITS = 64
LONGEST = 16_384  # tokens that a page shows
THUMBNAIL_SIDE = 32
DENSE_THUMBNAIL = 1_024  # tokens up to which a thumbnail sees every row
SAMPLED_ROWS = 256
LARGEST_ANSWER = 2**22  # numbers in one rectangle


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


class Session:
    """The questions the page may put to one model."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._looks: OrderedDict[str, Opened] = OrderedDict()
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._edited: OrderedDict[tuple[str, str, str, int], Tensor] = OrderedDict()
        self._tested: Report | None = None
        self._testing = False

    def model(self) -> schema.ModelCard:
        shape = self.scope.shape
        return schema.ModelCard(
            name=shape.name,
            d_model=shape.d_model,
            vocabulary=shape.vocabulary,
            context=shape.context,
            trained=shape.trained,
            sites=[_site_card(site) for site in shape.sites.values()],
            questions=list(QUESTIONS),
            notes=list(self.scope.notes),
        )

    def look(self, asked: schema.LookRequest) -> tuple[schema.LookCard, Arrays]:
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
        pictures = [self._thumbnail(look, head) for head in self.scope.shape.heads()]
        return card, {"answers": np.concatenate(answers, axis=1), "thumbnails": np.stack(pictures)}

    def weights(self, asked: schema.WeightsRequest) -> tuple[schema.WeightsCard, Arrays]:
        look = self._open(asked.look).look
        site = self.scope.shape.find(asked.head).site
        rows = _span(asked.rows, len(look.query_tokens(site)))
        columns = _span(asked.columns, len(look.key_tokens(site)))
        height, width = (-(-(end - start) // asked.pool) for start, end in (rows, columns))
        if height * width > LARGEST_ANSWER:
            raise InputError(
                f"{height}×{width} weights are more than one answer holds ({LARGEST_ANSWER}); raise pool={asked.pool}"
            )
        part = slice(*rows), slice(*columns)
        if asked.pool == 1:
            found = look.weights(asked.head, *part)
        else:
            pooled = look.pooled(asked.head, (height, width), *part)
            found = (pooled.maximum if asked.how == "max" else pooled.mean)[0]
        card = schema.WeightsCard(
            look=asked.look, head=asked.head, rows=rows, columns=columns, pool=asked.pool, how=asked.how
        )
        return card, {"weights": _numbers(found)}

    def mix(self, asked: schema.MixRequest) -> tuple[schema.MixCard, Arrays]:
        look = self._open(asked.look).look
        place = look.position(asked.position)
        self.scope.shape.find(Head(asked.site, 0))
        site = self.scope.shape.sites[asked.site]
        part = look.contributions(place, [asked.site]).sites[asked.site]
        reads = [look.weights(head, slice(place, place + 1))[0] for head in site.heads()]
        shares = np.full(self.scope.shape.n_heads, np.nan, dtype=np.float32)
        toward, note = None, ""
        if self.scope.shape.vocabulary is not None and look.query_tokens(asked.site) == look.written:
            toward = self._guess(look, place, asked.toward)
            try:
                found = look.logit_shares(toward.id, position=place)
            except InputError as why:  # a model whose logits cannot be split still has parts and sums to show
                toward, note = None, str(why)
            else:
                shares[:] = [found.heads.get(head, np.nan) for head in self.scope.shape.heads()]
                note = found.note
        card = schema.MixCard(
            look=asked.look, site=asked.site, position=place, toward=toward, kind=part.kind, note=note
        )
        return card, {
            "reads": _numbers(torch.stack(reads)),
            "delivered": _numbers(part.delivered),
            "parts": _numbers(part.parts),
            "bias": _numbers(part.bias),
            "output": _numbers(part.output),
            "shares": shares,
        }

    def predict(self, asked: schema.PredictRequest) -> schema.Prediction:
        opened = self._open(asked.look)
        look = opened.look
        place = look.position(asked.position)
        off = [str(self.scope.shape.find(name)) for name in dict.fromkeys(asked.off)]
        card = schema.Prediction(
            look=asked.look, position=place, off=off, how=asked.how, guesses=[], without=None, kl=None
        )
        if self.scope.shape.vocabulary is None:
            return card
        guesses = [
            schema.Guess(text=found.token.text, id=found.token.id, probability=found.probability)
            for found in look.predictions(place, asked.count)
        ]
        if not off:
            return card.model_copy(update={"guesses": guesses})
        before = look.logits[place].double().log_softmax(-1)
        after = self._without(opened, place, off, asked.how).double().log_softmax(-1)
        without = after.exp()[[guess.id for guess in guesses]].tolist()
        kl = max(0.0, float((before.exp() * (before - after)).nansum()))
        return card.model_copy(update={"guesses": guesses, "without": without, "kl": kl})

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
        return self._keep_look(Opened(name, text, ids, look, len(ids))).name

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
        ids = self.scope.model.token_ids(text) if len(text) > most // 2 else []
        source = text if len(ids) < most else ids[:most]
        look = self.scope.look(source)
        return Opened(name, text, source, look, max(len(ids), len(look.tokens)))

    def _without(self, opened: Opened, place: int, off: list[str], how: schema.Removal) -> Tensor:
        key = (opened.name, ",".join(sorted(off)), how, place)
        if key not in self._edited:
            with self.scope.edit(ablate(*off, how=how)):
                changed = self.scope.look(opened.source)
            return _keep(self._edited, key, changed.logits[place].clone(), KEPT_EDITS)
        return self._edited[key]

    def _guess(self, look: Look, place: int, token: int | None) -> schema.Guess:
        probabilities = look.logits[place].double().softmax(-1)
        chosen = int(probabilities.argmax()) if token is None else token
        if not 0 <= chosen < len(probabilities):
            raise InputError(f"toward={chosen}: this model has tokens 0–{len(probabilities) - 1}")
        text = self.scope.model.tokens_of(torch.tensor([chosen]))[0].text
        return schema.Guess(text=text, id=chosen, probability=float(probabilities[chosen]))

    def _thumbnail(self, look: Look, head: Head) -> NDArray[np.uint8]:
        side = min(len(look.tokens), THUMBNAIL_SIDE)
        if head.site not in look.sites:
            return np.zeros((side, side), dtype=np.uint8)
        length = len(look.query_tokens(head.site))
        rows = torch.arange(length) if length <= DENSE_THUMBNAIL else torch.linspace(0, length - 1, SAMPLED_ROWS).long()
        weights = look.weights(head, rows)
        small = torch.nn.functional.adaptive_max_pool2d(weights[None].float(), (side, side))[0]
        return (small.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).cpu().numpy()


def _weight(look: Look) -> int:
    """About how many bytes a look holds: q, k, z and what went through W_O at every site, and the logits."""
    sites = look.shape.sites.values()
    per_token = sum(
        site.n_heads * site.d_head + site.n_kv_heads * site.d_head + 2 * site.n_heads * site.d_value for site in sites
    )
    return 4 * len(look.tokens) * (per_token + len(sites) * look.shape.d_model + (look.shape.vocabulary or 0))


def _span(span: tuple[int, int], length: int) -> tuple[int, int]:
    start, end = span[0], min(span[1], length)
    if start >= end:
        raise InputError(f"positions {span[0]} to {span[1]}: this text has {length} tokens")
    return start, end


def _keep(kept: OrderedDict[Any, Kept], key: Any, value: Kept, most: int) -> Kept:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
    return value


def _numbers(values: Tensor) -> NDArray[np.float32]:
    return values.detach().float().cpu().numpy()


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
