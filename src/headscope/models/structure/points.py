"""Named points of a pass, the modules where they are, and passes in which values there are kept or changed."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import EditError, InputError, ModelError
from headscope.models.decoding import continues
from headscope.models.modes import hooked
from headscope.models.protocol import SiteObserver
from headscope.models.recording import OpenModel
from headscope.models.structure.carry import Route
from headscope.models.structure.readers import probed
from headscope.models.structure.recorder import RecordedStream

Change = Callable[[Tensor, int], Tensor]
"""Given a value ``[batch, position, d_model]`` and its first position in the text, the changed value."""

Metric = Callable[[Tensor], Tensor]
"""One number from logits ``[query, vocabulary]``."""

Answers = tuple[str | int, str | int]
"""A right and a wrong next token: the metric is the difference of their logits at the last position."""

AtModule = Literal["resid_pre", "resid_post", "attn_out", "mlp_out"]
"""What a module reads or returns, so that it can be changed."""
At = Literal["z", AtModule]
"""What can be patched."""
Kind = Literal[AtModule, "z", "resid_mid", "mlp_in", "q_input", "k_input", "v_input", "scores"]


@dataclass(frozen=True)
class Point:
    """A named place of a pass, such as ``mlp_out 3``, with TransformerLens's names.

    ``resid_pre`` and ``resid_post`` are the residual stream before and after a layer; ``attn_out`` and ``mlp_out`` what
    a site's W_O and a layer's MLP return, before a norm that may follow them; ``resid_mid`` and ``mlp_in`` the stream
    after a site and before the norm of an MLP; ``q_input 5.6`` the stream that a head reads; ``z`` and ``scores`` of a
    site or head.
    """

    kind: Kind
    where: str
    """The layer, site or head: ``3``, ``decoder.3``, ``decoder.3.cross``, ``5.6``."""

    @classmethod
    def parse(cls, name: str | Point) -> Point:
        """The point of this name."""
        kind, _, where = str(name).partition(" ")
        found = next((cls(each, where) for each in get_args(Kind) if each == kind), None)
        if found is None or not where:
            raise EditError(
                f"{str(name)!r} is not a point; write one of {', '.join(get_args(Kind))} and a layer, as in 'mlp_out 3'"
            )
        return found

    def __str__(self) -> str:
        return f"{self.kind} {self.where}"


def metric_of(model: OpenModel, metric: Metric | Answers) -> Metric:
    """Return the metric as a function of logits; a pair of answers becomes their logit difference."""
    if not isinstance(metric, tuple):
        own = metric

        def number(logits: Tensor) -> Tensor:
            made = own(logits)
            if not isinstance(made, Tensor) or made.numel() != 1:
                raise InputError(f"the metric returned {made!r:.60}. It makes one number, a tensor, of the logits")
            return made

        return number
    right, wrong = (model.processor.token_id(token) for token in metric)
    return lambda logits: logits[-1, right] - logits[-1, wrong]


def run_changed(
    model: OpenModel,
    inputs: Mapping[str, Tensor],
    changes: Mapping[Point, Change],
    observer: SiteObserver = lambda _, call: plain(call),
    *,
    batch: int = 1,
) -> Tensor:
    """Return the logits of ``batch`` texts with these values changed. z is ``[batch, position, head, d_value]``."""
    of_z = {point.where: change for point, change in changes.items() if point.kind == "z"}

    def attend(site: str, call: Call) -> Tensor:
        z = observer(site, call)
        return of_z[site](z.transpose(1, 2), call.first_query).transpose(1, 2) if site in of_z else z

    others = {point: change for point, change in changes.items() if point.kind != "z"}
    with changing(model, others, {}, batch):
        return model.run(inputs, attend).logits


@torch.no_grad()
def values_at(
    model: OpenModel, inputs: Mapping[str, Tensor], points: Sequence[Point], *observer: SiteObserver
) -> dict[Point, Tensor]:
    """The values at these points, from one pass."""
    found: dict[Point, Tensor] = {}

    def keeping(point: Point) -> Change:
        return lambda value, first: found.setdefault(point, value.detach().clone())

    run_changed(model, inputs, {point: keeping(point) for point in points}, *observer)
    missed = [str(point) for point in points if point not in found]
    if missed:
        raise ModelError(f"{', '.join(missed)}: {model.shape.name} does not call a module there on this text")
    return found


def gradients_at(
    model: OpenModel, inputs: Mapping[str, Tensor], metric: Metric, points: Sequence[Point], *observer: SiteObserver
) -> dict[Point, Tensor]:
    """The derivative of a metric with respect to the values at these points, from one backward pass."""
    moves: dict[Point, Tensor] = {}

    def moving(point: Point) -> Change:
        def moved(value: Tensor, first: int) -> Tensor:
            moves[point] = torch.zeros_like(value, requires_grad=True)
            return value + moves[point]

        return moved

    with torch.enable_grad():
        number = metric(run_changed(model, inputs, {point: moving(point) for point in points}, *observer)[0])
        slopes = torch.autograd.grad(number, list(moves.values()), allow_unused=True)
    pairs = zip(moves.items(), slopes, strict=True)
    return {point: torch.zeros_like(move) if slope is None else slope for (point, move), slope in pairs}


@contextmanager
def changing(
    model: OpenModel, points: Mapping[Point, Change], lengths: dict[str, tuple[int, int]], batch: int = 1
) -> Iterator[None]:
    """Change the values at these points inside the block; ``lengths`` are those of the text so far at each point."""
    with ExitStack() as stack:
        for point, change in points.items():
            module, is_input = module_of(model, probed(model), point)
            stack.enter_context(changed(module, _at_positions(point, change, lengths, batch), is_input=is_input))
        yield


def _at_positions(
    point: Point, change: Change, lengths: dict[str, tuple[int, int]], batch: int
) -> Callable[[Tensor], Tensor]:
    """The change of a value that may hold the rows of all texts on one axis, or be of one more token in generation."""

    def in_rows(value: Tensor) -> Tensor:
        rows = value if value.ndim == 3 else value.reshape(batch, -1, value.shape[-1])
        length = rows.shape[1]
        first = lengths.get(str(point), (0, 0))[0] if length == 1 and continues.get() else 0
        lengths[str(point)] = (first + length, first + length)
        return change(rows, first).reshape(value.shape)

    return in_rows


def changed(module: nn.Module, change: Callable[[Tensor], Tensor], *, is_input: bool) -> AbstractContextManager[None]:
    """Change what a module reads or returns inside the block: the first of its states."""

    def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
        made = _change_first(args, change)
        if made is not None:
            return made, kwargs
        name = next((key for key, value in kwargs.items() if _is_state(value)), None)
        return None if name is None else (args, {**kwargs, name: change(kwargs[name])})

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        return change(output) if isinstance(output, Tensor) else _change_first(output, change)

    return hooked([module], before=before) if is_input else hooked([module], after=after)


def _change_first(values: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A tuple with its first state changed; None if it has none."""
    index = next((index for index, value in enumerate(values) if _is_state(value)), None)
    return None if index is None else (*values[:index], change(values[index]), *values[index + 1 :])


def _is_state(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2


def module_of(model: OpenModel, stream: RecordedStream, point: Point) -> tuple[nn.Module, bool]:
    """The module at whose input or output a point is, and whether it is its input."""
    if point.kind not in get_args(AtModule):
        raise EditError(
            f"{str(point)!r} can be read, but no module returns it, so nothing can be put there; use one of "
            f"{', '.join(get_args(AtModule))}; scale() changes z, hide() scores, ablate(path(…)) what a head reads"
        )
    if point.kind == "attn_out" and point.where in model.shape.sites:
        return model.output_matrix(point.where), False
    prefixes = {label: path for path, label in stream.layers.items()}
    if point.where not in prefixes:
        raise EditError(f"{str(point)!r}: this model has no such layer or site; it has {', '.join(prefixes)}")
    prefix = prefixes[point.where]
    if point.kind != "mlp_out":
        layer = model.model.get_submodule(prefix)
        if any(layer is site for site in model.site_modules().values()):
            raise EditError(
                f"{str(point)!r}: this layer is only its attention, so no module reads or returns the stream"
            )
        return layer, point.kind == "resid_pre"
    writers = [writer for end in stream.ends() for writer in stream.writers(Route(end))]
    paths = {source.path for w in writers if w.kind == "mlp" and w.layer == point.where for source, _ in w.sources}
    if not paths:
        raise EditError(
            f"{str(point)!r}: no MLP output of this layer was found in what later heads or the final norm read; "
            "'resid_pre LAYER' is the stream before a layer"
        )
    common = os.path.commonpath([path.replace(".", "/") for path in paths]).replace("/", ".")
    if not common.startswith(prefix + "."):
        raise EditError(f"{str(point)!r}: what this layer writes apart from attention is not the output of one module")
    return model.model.get_submodule(common), False
