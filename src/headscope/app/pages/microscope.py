"""The microscope page: look at a text through one model, and change its heads.

A session belongs to one model. Its methods run in worker threads, one at a time (the server's queue sees to it; a long
one may pause between two layers), and keep the recent looks: a second request needs no second forward pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from headscope.app.lru import LRU
from headscope.app.pages import explain
from headscope.app.pages.attribution import (
    AttributionRequest,
    AttributionResponse,
    TokenRequest,
    TokenResponse,
    attribute,
    find_token,
)
from headscope.app.pages.kept_looks import KeptLooks, Opened
from headscope.app.pages.media.given_looks import GivenLook, GivenLooks
from headscope.app.pages.media.shown import (
    MediaInfo,
    ReceivedRequest,
    ReceivedResponse,
    Stream,
    media_info,
    received,
    token_streams,
    usual_sides,
)
from headscope.app.pages.media.upload import MediaRequest
from headscope.app.pages.predictions import (
    PredictRequest,
    PredictResponse,
    edits_of,
    logits_under,
    next_tokens,
    with_edits,
    without_tokens,
)
from headscope.app.pages.roles import PaperClaim, Roles, model_title, published_claims, roles_of, shipped
from headscope.app.pages.schema import QUESTIONS, SCHEMA_VERSION, LookName, QuestionInfo, Request, Response
from headscope.app.pages.sources import (
    CarriersRequest,
    CarriersResponse,
    SourcesRequest,
    SourcesResponse,
    shown_carriers,
    shown_sources,
)
from headscope.app.pages.tiles import PatternTiles, WeightsRequest, WeightsResponse
from headscope.app.wire import Arrays, numbers
from headscope.attention.progress import report_progress
from headscope.errors import InputError
from headscope.heads.edits.edit import Edit
from headscope.heads.explain.sources import Sources
from headscope.heads.look.look import Look
from headscope.heads.questions.standard_questions import VisibleKeys, answerable, standard_questions
from headscope.heads.roles.report import Report
from headscope.models.inputs.media import input_kinds
from headscope.models.protocol import Token
from headscope.models.recording import OpenModel
from headscope.names import Site
from headscope.scope import Scope

MAX_CHARACTERS = 1_000_000
KEPT_IMPORTANCE = 512
KEPT_EDITS = 64
LONGEST = 16_384  # tokens that a page shows
MOST_SPLIT = 8 * LONGEST  # characters of a text that are split into tokens
UNSETTLED = 64  # tokens at the end of a beginning that may be others in the whole text
LONG_REQUEST = 4_096  # bytes of a text from which reading it gives way to shorter requests
MEASURED = 1_024  # tokens of a text on which the heads' importance is measured

Kind = Literal["text", "pictures", "sound"]
Explanation = TypeVar("Explanation")


@dataclass(frozen=True, kw_only=True)
class SiteInfo(Site):
    """One attention module, and which of the model's token sequences its queries and keys come from."""

    queries: Stream
    keys: Stream


class ModelInfo(Response):
    """The model under the microscope."""

    schema_version: int = SCHEMA_VERSION
    name: str
    title: str = Field(description="its name in words")
    d_model: int
    vocabulary: int | None
    context: int | None
    trained: int | None
    sites: list[SiteInfo]
    questions: list[QuestionInfo]
    notes: list[str] = []
    reads: list[Kind] = ["text"]
    given: list[GivenLook] = Field(default=[], description="looks that a program brought, such as a denoiser's steps")


class LookRequest(Request):
    """A text, or the name of a look whose text is still cached."""

    text: str | None = Field(default=None, max_length=MAX_CHARACTERS)
    look: LookName | None = None


class LookResponse(Response):
    """One text under the microscope.

    Arrays: ``answers`` float32 [question, head], the heads of all sites in order, NaN where no row of the text can
    answer; ``thumbnails`` uint8 [head, side, side], round(255·√weight), pooled by the maximum where the text is longer
    (a text past 1,024 tokens by a sample of its rows).
    """

    schema_version: int = SCHEMA_VERSION
    look: str
    text: str
    tokens: list[Token]
    written: list[Token] = Field(description="the decoder's tokens, for an encoder-decoder")
    read: int = Field(description="tokens the model reads: what is shown")
    length: int | None = Field(description="tokens the text has; none where only its beginning was split into tokens")
    asked: list[int] = Field(description="for each question, at how many positions of this text it can be asked")
    streams: dict[str, list[Token]] = Field(default={}, description="other token sequences, as a picture's patches")
    sides: dict[str, tuple[str, str]] = Field(
        default={},
        description="where a site's queries and keys are not the model's usual token sequences",
    )
    media: MediaInfo | None = None


class ImportanceRequest(Request):
    """How much each head matters on a text."""

    look: LookName


class ImportanceResponse(Response):
    """First-order importance: how much the loss would rise, in nats per token, if the head were ablated.

    Arrays: ``importance`` float32 [head].
    """

    look: str
    read: int = Field(description="the tokens it was measured on: the first of a long text")


class RequestProgress(Response):
    """How far a request is; empty when there is none. ``place``: how many other requests run before it."""

    what: str = ""
    done: int = 0
    total: int = 0
    place: int = 0


class ForgottenLookError(InputError):
    """A request names a look whose text is no longer cached; the page sends the text again."""


class Session:
    """Answer the page's requests about one model, and keep its recent looks; ``given`` are shown from the start."""

    def __init__(self, scope: Scope, given: GivenLooks | None = None) -> None:
        self.scope = scope
        self.given = given or GivenLooks()
        self.kept = KeptLooks().part()
        self._edited: LRU[tuple[str, str, int | None], Tensor] = LRU(KEPT_EDITS)
        self._importance: LRU[str, NDArray[np.float32]] = LRU(KEPT_IMPORTANCE)
        self._tested: Report | None = None
        self._asked: tuple[object, Sources] | None = None
        self._testing = False

    def model(self) -> ModelInfo:
        shape = self.scope.shape
        sizes = {name: getattr(shape, name) for name in ("name", "d_model", "vocabulary", "context", "trained")}
        sites = [
            SiteInfo(**asdict(site), queries=queries, keys=keys)
            for site in shape.sites.values()
            for queries, keys in [usual_sides(site)]
        ]
        return ModelInfo(
            **sizes,
            title=model_title(self.scope),
            sites=sites,
            questions=list(QUESTIONS),
            notes=list(self.scope.notes),
            reads=_kinds(self.scope.model),
            given=self.given.infos,
        )

    @cached_property
    def parameters(self) -> int:
        """How many parameters this model has."""
        return sum(weight.numel() for weight in self.scope.model.model.parameters())

    def look(self, asked: LookRequest) -> tuple[LookResponse, Arrays]:
        if asked.text is None:
            return self._shown(self._open(asked.look or ""))
        name = hashlib.sha256(asked.text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._shown(self.kept.look(name) or self.kept.keep(self._read(name, asked.text)))

    def look_media(self, asked: MediaRequest, owner: str = "") -> tuple[LookResponse, Arrays]:
        """Look at a picture or sound that a client has sent; only that client finds it again."""
        name = asked.name(owner)
        opened = self.kept.look(name)
        if opened is None:
            look = self.scope.observe(source := asked.source())
            opened = Opened(name, asked.text or "", source, look, len(look.tokens), PatternTiles(look), sent=True)
            self.kept.keep(opened)
        return self._shown(opened)

    def received(self, asked: ReceivedRequest) -> tuple[ReceivedResponse, Arrays]:
        return received(self._open(asked.look).look, asked)

    def _shown(self, opened: Opened) -> tuple[LookResponse, Arrays]:
        look, sites = opened.look, self.scope.shape.sites.values()
        ids = torch.tensor([[token.id for token in look.tokens]])
        keys = VisibleKeys(causal=all(site.causal for site in sites))
        rows = {name: int(answerable(each, keys).sum()) for name, each in standard_questions(ids).items()}
        streams = token_streams(look)
        media, arrays = None, Arrays()
        if any(each.is_floating_point() for each in look.prepared.inputs.values()):  # unlike token ids and masks
            media, arrays = media_info(look, streams.tokens)
        found = LookResponse(
            look=opened.name,
            text=opened.text,
            tokens=list(look.tokens),
            written=[] if look.written is look.tokens else list(look.written),
            read=len(look.tokens),
            length=opened.length,
            asked=[rows.get(question.name, len(look.tokens) - 1) for question in QUESTIONS],
            streams={name: list(tokens) for name, tokens in streams.other.items()},
            sides=streams.sides,
            media=media,
        )
        scores = np.concatenate([_site_scores(look, site) for site in sites], axis=1)
        thumbnails = np.concatenate([opened.tiles.thumbnails(site) for site in sites])
        return found, {"answers": scores, "thumbnails": thumbnails, **arrays}

    def weights(self, asked: WeightsRequest) -> tuple[WeightsResponse, Arrays]:
        found, weights = self._open(asked.look).tiles.tile(asked)
        self.kept.trim()  # tiles are kept with their look
        return found, {"weights": numbers(weights)}

    def attribution(self, asked: AttributionRequest) -> tuple[AttributionResponse, Arrays]:
        return attribute(self._open(asked.look).look, asked)

    def why(self, asked: explain.WhyRequest) -> explain.WhyResponse:
        return self._explain(asked.look, lambda look: explain.split_arrow(look, asked))

    def trace(self, asked: explain.TraceRequest) -> explain.TraceResponse:
        return self._explain(asked.look, lambda look: explain.trace_back(look, asked))

    def cut_path(self, asked: explain.CutPathRequest) -> explain.CutPathResponse:
        return self._explain(asked.look, lambda look: explain.cut_path(look, asked))

    def lens(self, asked: explain.LensRequest) -> explain.LensResponse:
        return explain.read_lens(self._open(asked.look).look, asked)

    def patching(self, asked: explain.PatchingRequest) -> explain.PatchingResponse:
        return explain.patch_texts(self._open(asked.look).look, self._open(asked.corrupted).look, asked)

    def sources(self, asked: SourcesRequest) -> SourcesResponse:
        return shown_sources(self._sources(asked), pairs=asked.pairs)

    def carriers(self, asked: CarriersRequest) -> CarriersResponse:
        return shown_carriers(self._sources(asked).heads(asked.document))

    def _sources(self, asked: SourcesRequest) -> Sources:
        key = asked.documents, asked.question, asked.expected
        if self._asked is None or self._asked[0] != key:
            self._asked = key, self.scope.sources(asked.documents, asked.question, expected=asked.expected)
        return self._asked[1]

    def _explain(self, name: str, reads: Callable[[Look], Explanation]) -> Explanation:
        found = reads(self._open(name).look)
        self.kept.trim()  # the recorded residual stream is kept with its look
        return found

    def token(self, asked: TokenRequest) -> TokenResponse:
        return find_token(self.scope.model, asked.text)

    def predict(self, asked: PredictRequest) -> PredictResponse:
        opened = self._open(asked.look)
        look = opened.look
        position, edits = look.position(asked.position), edits_of(asked, look)
        off = list(dict.fromkeys(asked.off))
        found = PredictResponse(look=asked.look, position=position, off=off, cuts=asked.cuts, how=asked.how)
        if self.scope.shape.vocabulary is None:
            return without_tokens(found, look, self._under(opened, None, edits) if edits else None, asked.count)
        found = found.model_copy(update={"guesses": next_tokens(look.predictions(position, asked.count))})
        return (
            with_edits(found, look.cache.logits_at(position), self._under(opened, position, edits)) if edits else found
        )

    def importance(self, asked: ImportanceRequest) -> tuple[ImportanceResponse, Arrays]:
        """Every head's first-order importance on (the beginning of) this text."""
        opened = self._open(asked.look)
        ids = [token.id for token in opened.look.tokens[:MEASURED]]
        whole = len(ids) == len(opened.look.tokens) or min(ids) < 0  # a picture is not read from token ids
        source = opened.source if whole else ids

        def measure() -> NDArray[np.float32]:
            by_head = {each.head: each.loss.mean for each in self.scope.importance([source], how="gradient")}
            return np.array([by_head[head] for head in self.scope.shape.heads()], dtype=np.float32)

        importance = self._importance.cached(opened.name, measure)
        return ImportanceResponse(look=asked.look, read=len(ids)), {"importance": importance}

    def featured(self) -> list[PaperClaim]:
        """Published claims about this model's heads, with the scores that were measured here."""
        return published_claims(self.scope.shape, self._tested or self._shipped)

    def roles(self) -> Roles:
        """The roles of the heads, as far as they have been tested. Returns at once."""
        report = self._tested or self._shipped
        if report is None:
            return Roles(state="testing" if self._testing else "untested")
        return roles_of(report, [str(head) for head in self.scope.shape.heads()])

    def test_heads(self) -> Roles:
        """Run the battery, once per model."""
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
        """Cache a look that was made elsewhere; return the name for requests about it."""
        ids = [token.id for token in look.tokens]
        typed = [token for token in look.tokens if token.start is not None]  # not what the tokenizer added
        text = "".join(token.text for token in typed or look.tokens)
        inputs = look.prepared.inputs if not typed else {}
        sums = [float(value.double().sum()) for value in inputs.values()]  # the same patches of another picture
        name = hashlib.sha256(repr((ids, *sums)).encode()).hexdigest()[:32]
        return self.kept.keep(Opened(name, text, ids, look, len(ids), PatternTiles(look))).name

    def forget(self) -> None:
        """Drop every kept look; it is read again when it is needed."""
        self.kept.forget_looks()
        self._edited.clear()

    def text_size(self, asked: LookRequest) -> int:
        """Return the bytes of a text; its characters if these are already many, and 0 if it is not a text."""
        text = asked.text if asked.text is not None else self.kept.text(asked.look or "") or ""
        return len(text) if len(text) > LONG_REQUEST else len(text.encode("utf-8", "surrogatepass"))

    def _open(self, name: str) -> Opened:
        opened, text = self.kept.look(name), self.kept.text(name)
        if opened is None and name in self.given:
            return self.kept.keep(self.given.read(name))
        if opened is None and text is None:
            raise ForgottenLookError(f"the text of look {name!r} is no longer kept; type it or drop its file again")
        return opened or self.kept.keep(self._read(name, text or ""))

    def _read(self, name: str, text: str) -> Opened:
        """Look at the text, as far as the model's context reaches."""
        if not text.strip():
            raise InputError("this text is empty; type a sentence")
        most = min(LONGEST, self.scope.shape.context or LONGEST)
        ids, whole = self._split(text, most) if len(text) > most // 8 else ([], True)
        source = text if whole and len(ids) <= most else ids[:most]
        look = self.scope.observe(source)
        length = max(len(ids), len(look.tokens)) if whole else None
        return Opened(name, text, source, look, length, PatternTiles(look))

    def _split(self, text: str, most: int) -> tuple[list[int], bool]:
        """Split a text, or its beginning, into tokens; tell whether it was the whole text.

        Nothing pauses or stops a tokenizer, so longer and longer beginnings are split, with a pause point before each.
        """
        beginning = text[:most]
        while True:
            report_progress("reading the text", 0, len(self.scope.shape.sites))
            ids = self.scope.model.processor.token_ids(beginning)
            if len(beginning) == min(len(text), MOST_SPLIT) or len(ids) > most + UNSETTLED:
                return ids, len(beginning) == len(text)
            beginning = text[: min(2 * len(beginning), MOST_SPLIT)]

    def _under(self, opened: Opened, position: int | None, edits: list[Edit]) -> Tensor:
        """The logits at one position under these edits, or the whole output."""
        key = (opened.name, "|".join(sorted(edit.key for edit in edits)), position)
        at = slice(None) if position is None else position
        return self._edited.cached(key, lambda: logits_under(opened.look, edits)[at].clone())


def _site_scores(look: Look, site: Site) -> Float[np.ndarray, "question head"]:
    """Each head's mean score; NaN where no row can answer the question, or the pass did not reach the site."""
    scores = np.full((len(QUESTIONS), site.n_heads), np.nan, dtype=np.float32)
    if site.name not in look.sites:
        return scores
    found = look.mean_answers(site.name) | look.mean_traits(site.name)
    for index, question in enumerate(QUESTIONS):
        if question.name in found:
            scores[index] = found[question.name].double().cpu().numpy()
    return scores


def _kinds(model: OpenModel) -> list[Kind]:
    """What a model reads; text where it does not say."""
    kinds = set(input_kinds(getattr(model, "takes", frozenset())) or getattr(model, "reads", ["text"]))
    return [kind for kind in ("text", "pictures", "sound") if kind in kinds]
