"""Open the page on models and looks of a running program."""

from __future__ import annotations

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.media.given_looks import GivenLooks
from headscope.app.pages.microscope import Session
from headscope.app.server import ServeOptions, serve
from headscope.checked import checked
from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.heads.step_looks import StepLooks
from headscope.scope import Scope


@checked
def show(*what: Scope | Look | StepLooks, port: int | None = None, open_browser: bool = True) -> None:
    """Serve the page with these scopes, looks, or steps of a run, until it is interrupted.

    A look is shown with its model, which reads other inputs as well; of steps, each is looked at when it is chosen.
    """
    if not what:
        raise InputError("there is nothing to show; give a scope, a look, or the steps of a run")
    registry = ModelRegistry(*(session_of(each) for each in what))
    serve(registry, ServeOptions(port=port, open_browser=open_browser))


def session_of(what: Scope | Look | StepLooks) -> Session:
    """A session on a scope, or on the model of looks, which the page shows first."""
    if isinstance(what, Scope):
        return Session(what)
    looks = [what] if isinstance(what, Look) else what
    return Session(Scope(what.model), given=GivenLooks(looks))
