"""What the page asks of a session, by name: for the routes of the server, and for a notebook's widget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from headscope.app.pages.attribution import AttributionRequest, AttributionResponse, TokenRequest, TokenResponse
from headscope.app.pages.explain import (
    CutPathRequest,
    CutPathResponse,
    LensRequest,
    LensResponse,
    PatchingRequest,
    PatchingResponse,
    TraceRequest,
    TraceResponse,
    WhyRequest,
    WhyResponse,
)
from headscope.app.pages.media.shown import ReceivedRequest, ReceivedResponse
from headscope.app.pages.microscope import (
    ImportanceRequest,
    ImportanceResponse,
    LookRequest,
    LookResponse,
    Session,
    WhereRequest,
    WhereResponse,
)
from headscope.app.pages.predictions import PredictRequest, PredictResponse
from headscope.app.pages.schema import Request
from headscope.app.pages.sources import CarriersRequest, CarriersResponse, SourcesRequest, SourcesResponse
from headscope.app.pages.tiles import WeightsRequest, WeightsResponse


class SessionRequest(NamedTuple):
    """A request, its response and the method that answers it; with ``arrays`` that gives a response and its arrays."""

    asked: type[Request]
    response: Any
    respond: Callable[[Session, Any], Any]
    kind: Literal["text", "short", "long"]
    """How long it takes: always, or as the length of its text says."""
    arrays: bool = False


REQUESTS = {
    "look": SessionRequest(LookRequest, LookResponse, Session.look, "text", arrays=True),
    "weights": SessionRequest(WeightsRequest, WeightsResponse, Session.weights, "text", arrays=True),
    "attribution": SessionRequest(AttributionRequest, AttributionResponse, Session.attribution, "text", arrays=True),
    "received": SessionRequest(ReceivedRequest, ReceivedResponse, Session.received, "text", arrays=True),
    "importance": SessionRequest(ImportanceRequest, ImportanceResponse, Session.importance, "text", arrays=True),
    "where": SessionRequest(WhereRequest, WhereResponse, Session.where, "text"),
    "token": SessionRequest(TokenRequest, TokenResponse, Session.token, "short"),
    "predict": SessionRequest(PredictRequest, PredictResponse, Session.predict, "text"),
    "lens": SessionRequest(LensRequest, LensResponse, Session.lens, "long"),
    "patching": SessionRequest(PatchingRequest, PatchingResponse, Session.patching, "long"),
    "sources": SessionRequest(SourcesRequest, SourcesResponse, Session.sources, "long"),
    "carriers": SessionRequest(CarriersRequest, CarriersResponse, Session.carriers, "long"),
    "why": SessionRequest(WhyRequest, WhyResponse, Session.why, "long"),
    "trace": SessionRequest(TraceRequest, TraceResponse, Session.trace, "long"),
    "cut-path": SessionRequest(CutPathRequest, CutPathResponse, Session.cut_path, "long"),
}
