"""StepLooks: the passes of one run of a module, such as a denoiser's, each looked at when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.models.recording import OpenModel


class StepLooks(Sequence[Look]):
    """``steps[3]`` or ``steps["step 3, timestep 801"]`` is a look at that step; ``names`` has them in order."""

    def __init__(self, model: OpenModel, names: Sequence[str], read: Callable[[int], Look]) -> None:
        self.model = model
        self.names = tuple(names)
        self._read = read

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, step: int | str) -> Look: ...
    @overload
    def __getitem__(self, step: slice) -> list[Look]: ...
    def __getitem__(self, step: int | str | slice) -> Look | list[Look]:
        if isinstance(step, slice):
            return [self._read(each) for each in range(len(self))[step]]
        if isinstance(step, str):
            found = [at for at, name in enumerate(self.names) if step in (name, name.partition(", ")[2])]
            if len(found) != 1:
                raise InputError(f"{step!r} names {len(found)} steps; there are {', '.join(self.names)}")
            return self._read(found[0])
        if not -len(self) <= step < len(self):
            raise IndexError(f"step {step}: there are {len(self)}, 0–{len(self) - 1}")
        return self._read(step % len(self))

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return None if Look.app is None else Look.app().display(self)

    def __repr__(self) -> str:
        return f"StepLooks({self.names[0]} … {self.names[-1]})" if len(self) > 1 else f"StepLooks({self.names[0]})"
