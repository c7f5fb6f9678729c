"""An edit, what it does in one model, and the order of several: scores, then readers' inputs, then z."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.attention.scores import Scores
from headscope.errors import EditError
from headscope.models.protocol import ForwardPass, SiteObserver
from headscope.models.recording import OpenModel
from headscope.models.structure.points import Change, Point, changing
from headscope.models.structure.recorder import recording_stream
from headscope.names import Head, HeadName

if TYPE_CHECKING:
    from headscope.heads.edits.path import ReaderInputs

EditFunction = Callable[[str, Call, Tensor], Tensor]
"""Given a site, its call and z so far, the changed z."""

Reached = Mapping[str, tuple[int, int]]
"""Queries and keys of every site, and positions (twice) of every point, that a text reached."""


@dataclass(frozen=True, kw_only=True)
class BoundEdit:
    """What an edit does in one model. Members that it does not set do nothing."""

    scores: Callable[[str, Call], Scores] | None = None
    """New scores of a call, such as with keys hidden. Statistics and patterns are of these, and so has z to be."""
    z: EditFunction | None = None
    """The changed z; the scores of the call are those of all edits in force, without cut paths."""
    points: Mapping[Point, Change] = field(default_factory=dict)
    """Changes of the residual stream, and of what is added to it."""
    inputs: ReaderInputs | None = None
    """What some heads read in place of the stream. The pass is recorded for it, one text at a time."""
    refuse_beyond: Callable[[Reached], None] | None = None
    """Refuse positions that a whole text does not have. In generation a position may still come."""


@dataclass(frozen=True)
class Edit:
    """An edit before it is bound to a model. The key is equal for equal edits."""

    key: str
    bind: Callable[[OpenModel], BoundEdit] = field(compare=False, repr=False)


class Edits:
    """Edits in force in one model. Whatever order they are given in, they act in the order of the computation."""

    def __init__(self, model: OpenModel, bound: Sequence[BoundEdit] = ()) -> None:
        self.model, self.bound = model, tuple(bound)
        paths = [edit.inputs for edit in bound if edit.inputs is not None]
        self._paths = paths[0].joined(paths[1:]) if paths else None
        self._hiding = [edit for edit in bound if edit.scores is not None]
        later = [edit for edit in bound if edit.scores is None]
        of_z = [edit.z for edit in self._hiding], [self._paths.z if self._paths else None], [edit.z for edit in later]
        self._of_z = [change for some in of_z for change in some if change is not None]
        self._lengths: dict[str, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self.bound)

    @property
    def changes_scores(self) -> bool:
        """Whether attention patterns are others than those of the model's own q and k."""
        return self._paths is not None or bool(self._hiding)

    @property
    def follows(self) -> bool:
        """Whether passes are followed through the model's modules: one text at a time, and no layer skipped."""
        return self._paths is not None or any(edit.points for edit in self.bound)

    def scores(self, site: str, call: Call) -> Scores:
        """The scores of a call under the edits."""
        call = self._with_hidden(site, call) if self._hiding else call
        return call.scores if self._paths is None else self._paths.scores(site, call)

    def z(self, site: str, call: Call, z: Tensor) -> Tensor:
        """Change z, in this order: keys hidden, paths cut together, then the edits of z as they were given."""
        call = self._with_hidden(site, call) if self._hiding else call
        for change in self._of_z:
            z = change(site, call, z)
        return z

    def attend(self, site: str, call: Call) -> Tensor:
        """Observe nothing; compute z under the edits."""
        return self.z(site, call, plain(call)) if self.bound else plain(call)

    def run(self, inputs: Mapping[str, Tensor], observer: SiteObserver | None = None, **wanted: Any) -> ForwardPass:
        """Run the model under the edits; an observer changes z by ``z`` or ``attend`` itself."""
        with self.during():
            done = self.model.run(inputs, observer or self.attend, **wanted)
        missed = [str(point) for edit in self.bound for point in edit.points if str(point) not in self._lengths]
        if missed:
            raise EditError(
                f"{', '.join(missed)}: {self.model.shape.name} does not call a module there, so nothing was edited"
            )
        return done

    @contextmanager
    def during(self) -> Iterator[None]:
        """Run a pass inside the block: its stream is recorded if paths are cut, and hooks change values at points."""
        with ExitStack() as stack:
            if self._paths is not None:
                stack.enter_context(recording_stream(self.model))
            for edit in self.bound:
                stack.enter_context(changing(self.model, edit.points, self._lengths))
            yield

    def refuse_beyond(self, reached: Reached) -> None:
        """Refuse edits at positions that a whole text does not have."""
        for edit in self.bound:
            if edit.refuse_beyond is not None:
                edit.refuse_beyond({**reached, **self._lengths})

    def _with_hidden(self, site: str, call: Call) -> Call:
        for edit in self._hiding:
            assert edit.scores is not None
            call = replace(call, scores=edit.scores(site, call))
        return call


def of_function(function: EditFunction) -> Edit:
    """Return an edit from a function of site, call and z; what it returns replaces z."""

    def change(site: str, call: Call, z: Tensor) -> Tensor:
        made: Any = function(site, call, z)
        if isinstance(made, Tensor) and (made.shape, made.dtype, made.device) == (z.shape, z.dtype, z.device):
            return made
        name = getattr(function, "__name__", type(function).__name__)
        got = f"{made.dtype} {tuple(made.shape)} on {made.device}" if isinstance(made, Tensor) else type(made).__name__
        raise EditError(
            f"the edit {name}() returned {got} at site {site}; it has to return z, {z.dtype} {tuple(z.shape)} on "
            f"{z.device}, changed or as it was given"
        )

    return Edit(repr(function), lambda model: BoundEdit(z=change))


def names(heads: HeadName | Sequence[HeadName]) -> tuple[HeadName, ...]:
    """One head, or several, as several."""
    if not isinstance(heads, Head) and not heads:
        raise EditError("there is no head in this list; give at least one, such as '5.6'")
    one = isinstance(heads, str | Head) or (isinstance(heads, tuple) and isinstance(heads[-1], int))  # (5, 1): one head
    return (cast(HeadName, heads),) if one else tuple(cast(Sequence[HeadName], heads))


def by_site(model: OpenModel, heads: Sequence[HeadName]) -> dict[str, list[int]]:
    """The numbers of these heads at each of their sites."""
    found: dict[str, list[int]] = {}
    for name in heads:
        head = model.shape.find(name)
        found.setdefault(head.site, []).append(head.head)
    return found


def listed(heads: Sequence[HeadName]) -> str:
    """Heads in the key of an edit."""
    return ",".join(map(str, heads))
