"""Looks that a program brings to the page: one, or the steps of a denoiser, read when they are first asked for."""

from __future__ import annotations

from collections.abc import Sequence

from headscope.app.pages.kept_looks import Opened
from headscope.app.pages.schema import Response
from headscope.app.pages.tiles import PatternTiles
from headscope.heads.look.look import Look
from headscope.heads.step_looks import StepLooks


class GivenLook(Response):
    """The name of a look for requests about it, and its title."""

    look: str
    title: str


class GivenLooks:
    """Looks by the names that the page asks for them by."""

    def __init__(self, looks: Sequence[Look] = ()) -> None:
        titles = looks.names if isinstance(looks, StepLooks) else [f"look {at}" for at in range(len(looks))]
        self._looks = looks
        self.infos = [GivenLook(look=f"given {at}", title=title) for at, title in enumerate(titles)]

    def __contains__(self, name: str) -> bool:
        return any(info.look == name for info in self.infos)

    def read(self, name: str) -> Opened:
        """Look at it now."""
        look = self._looks[next(at for at, info in enumerate(self.infos) if info.look == name)]
        typed = [token for token in look.tokens if token.start is not None]
        text = "".join(token.text for token in typed)
        return Opened(name, text, look.prepared.inputs, look, len(look.tokens), PatternTiles(look), sent=True)
