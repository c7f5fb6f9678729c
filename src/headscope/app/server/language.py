"""The language that a request asks for."""

from __future__ import annotations

from starlette.requests import Request

from headscope.lab.teach.lessons import LANGUAGES


def language_of(request: Request) -> str:
    """The first language of the Accept-Language header that there is; English otherwise.

    The page sends the one it speaks, so the order of the header is the order of preference.
    """
    wanted = (
        each.split(";")[0].strip().split("-")[0].lower()
        for each in request.headers.get("accept-language", "").split(",")
    )
    return next((each for each in wanted if each in LANGUAGES), "en")
