"""Which document an answer came from, for the page."""

from __future__ import annotations

from math import exp
from typing import Annotated

from pydantic import Field

from headscope.app.pages.schema import Request, Response
from headscope.heads.explain.carriers import Carriers
from headscope.heads.explain.sources import Sources, Verdict

MOST_DOCUMENTS, MOST_CHARACTERS = 24, 20_000
Passage = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


class SourcesRequest(Request):
    """Documents and a question; ``expected`` is another answer to measure, with its leading space."""

    documents: list[Passage] = Field(min_length=1, max_length=MOST_DOCUMENTS)
    question: Passage
    expected: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    pairs: bool = Field(default=False, description="hide documents that were not used two at a time too")


class Answer(Response):
    """An answer and its probability with every document."""

    text: str
    probability: float


class DocumentEffect(Response):
    """What one document does, for the answer given and, if there is one, for the answer expected."""

    effects: list[float] = Field(description="nats that each answer loses when the document is hidden")
    controls: list[tuple[float, float]] = Field(description="smallest and largest effect of other stretches, if any")
    hidden: list[float] = Field(description="each answer's probability when the document is hidden")
    attention: float
    verdict: Verdict
    first: int = Field(description="the position of its first token")


class SourcesResponse(Response):
    """The effect of every document, next to its controls and its attention."""

    prompt: str
    answers: list[Answer]
    documents: list[DocumentEffect]
    sentences: list[str]
    pairs: list[tuple[int, int, float]] = Field(description="two documents, the answer's probability without both")
    passes: int
    tokens: int


class CarriersRequest(SourcesRequest):
    """The heads that carry one document, counted from 1."""

    document: int = Field(ge=1, le=MOST_DOCUMENTS)


class Carrier(Response):
    """A head, its estimated part of a document's effect in nats, and its arrow with the largest part."""

    head: str
    estimated: float
    query: int
    key: int


class CarriersResponse(Response):
    """Heads chosen by integrated gradients, and what is lost when their arrows into the document are cut together."""

    answer: str
    heads: list[Carrier]
    together: float
    random: float = Field(description="the largest effect of as many random heads")
    everything: float


def shown_sources(found: Sources, *, pairs: bool) -> SourcesResponse:
    """What the page draws."""
    hidden = found.hidden.exp()
    rows = [
        DocumentEffect(
            effects=found.effects[index].tolist(),
            controls=[
                (float(each.min()), float(each.max()))
                for each in (found.controls[number].T if len(found.controls.get(number, ())) else ())
            ],
            hidden=hidden[index].tolist(),
            attention=float(found.attention[index]),
            verdict=found.verdict(number),
            first=found.spans[number].start,
        )
        for index, number in enumerate(found.documents)
    ]
    answers = [
        Answer(text=text, probability=float(p)) for text, p in zip(found.answers, found.whole.exp(), strict=True)
    ]
    both = [(*pair, answers[0].probability * exp(-nats)) for pair, nats in (found.pairs() if pairs else {}).items()]
    return SourcesResponse(
        prompt=str(found.prompt), answers=answers, documents=rows, sentences=found.sentences(), pairs=both,
        passes=found.passes + len(both), tokens=len(found.reader.tokens),
    )  # fmt: skip


def shown_carriers(found: Carriers) -> CarriersResponse:
    """The heads that carry a document, the largest part first."""
    parts = dict(zip(found.names, found.estimated.tolist(), strict=True))
    heads = [
        Carrier(head=str(head), estimated=parts[head], query=query, key=key)
        for head, (query, key) in zip(found.heads, found.arrows, strict=True)
    ]
    return CarriersResponse(
        answer=found.answer, heads=heads, together=found.together, random=max(found.random),
        everything=found.everything,
    )  # fmt: skip
