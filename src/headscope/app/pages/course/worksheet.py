"""The worksheet page."""

from __future__ import annotations

from headscope.app.pages.schema import Response
from headscope.lab.teach.worksheet import worksheet


class WorksheetTask(Response):
    """One task; ``answers`` and ``working`` are empty unless the sheet is solved."""

    title: str
    text: str
    table: list[list[str]]
    blanks: list[str]
    answers: list[str]
    working: str


class WorksheetResponse(Response):
    seed: int
    solved: bool
    tasks: list[WorksheetTask]


def sheet(seed: int, *, solved: bool) -> WorksheetResponse:
    """The worksheet of a seed."""
    return WorksheetResponse(**worksheet(seed).to_dict(solved=solved))
