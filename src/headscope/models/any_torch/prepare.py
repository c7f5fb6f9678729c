"""Turn what a user gives to ``look`` into the tensors of any module, and label its positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headscope.attention.observer import Call
from headscope.errors import HeadscopeError, InputError
from headscope.models.any_torch.arguments import IDS, FunctionInputs
from headscope.models.inputs import media
from headscope.models.inputs.media_positions import NOT_TEXT, grid_labels, numbered_labels
from headscope.models.protocol import Prepared, Token
from headscope.names import Site

if TYPE_CHECKING:
    from headscope.models.any_torch.model import AnyTorchModel


def prepare(opened: AnyTorchModel, given: Any) -> Prepared:
    """See ``OpenModel.prepare``. What is not given is as it was when the module was opened."""
    if isinstance(given, FunctionInputs):
        return _labelled(opened, given)
    if callable(given) and not isinstance(given, Tensor):
        return _labelled(opened, FunctionInputs(given))
    medium, text = media.recognise(given)
    if medium is not None:
        return _labelled(opened, _from_medium(opened, medium, text))
    known = opened.arguments.named()
    if opened.arguments.ids is not None and _is_text(given):
        prepared = opened.processor.prepare(given)
        return Prepared({**_first_items(known), **prepared.inputs}, prepared.tokens)
    if isinstance(given, Mapping):
        return _labelled(opened, _from_mapping(opened, known, given))
    if isinstance(given, Tensor):
        main = IDS if opened.arguments.main == opened.arguments.ids else opened.arguments.main
        return _labelled(opened, {**known, main: given})
    if isinstance(given, tuple) and given and all(isinstance(value, Tensor) for value in given):
        return _labelled(opened, {**known, **dict(zip(known, given, strict=False))})
    raise InputError(
        f"cannot give {opened.name} a {type(given).__name__}; it was opened with "
        f"{', '.join(known) or 'a function'}: give tensors by name, or a tensor for the first of them"
    )


def _is_text(given: Any) -> bool:
    if isinstance(given, str) or (isinstance(given, Tensor) and not given.is_floating_point()):
        return True
    return isinstance(given, Sequence) and bool(given) and all(isinstance(item, int | Mapping) for item in given)


def _first_items(known: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs other than the ids, for one text."""
    ids = known[IDS]
    return {
        name: value[:1] if value.ndim and len(value) == len(ids) else value
        for name, value in known.items()
        if name != IDS and value.shape[:2] != ids.shape
    }


def _from_mapping(opened: AnyTorchModel, known: Mapping[str, Tensor], given: Mapping[str, Any]) -> dict[str, Tensor]:
    ids = opened.arguments.ids
    named = {IDS if name == ids else name: value for name, value in given.items()}
    tensors = {name: torch.as_tensor(value) for name, value in named.items() if isinstance(value, Tensor | int | float)}
    may = {*known, *opened.arguments.numbers}
    wrong = [name for name in named if name not in tensors or name not in may]
    if wrong:
        raise InputError(f"cannot give this model {', '.join(map(repr, wrong))}; it was opened with {', '.join(may)}")
    return {**known, **tensors}


def _from_medium(opened: AnyTorchModel, medium: media.Picture | media.Sound, text: str | None) -> dict[str, Tensor]:
    """A picture through the processor that was given, or through a function that makes a tensor of it."""
    known, main = opened.arguments.named(), opened.arguments.main
    make = opened.processor.media.both or opened.processor.media.image
    if isinstance(medium, media.Sound) or not callable(make) or text is not None:
        raise InputError(
            f"{opened.name} was given no function that makes tensors of it; pass processor=, or give {main} as a tensor"
        )
    made = make(medium.image)
    pixels = made if isinstance(made, Tensor) else made["pixel_values"]
    return {**known, main: pixels[None] if pixels.ndim == known[main].ndim - 1 else pixels}


def _labelled(opened: AnyTorchModel, inputs: dict[str, Tensor]) -> Prepared:
    """The inputs, with the positions of the first site as tokens."""
    if IDS in inputs and inputs[IDS].ndim == 2:
        opened.processor.check(inputs[IDS][0].tolist())
        return Prepared(inputs, opened.processor.tokens_of(inputs[IDS][0]))
    site, length, windows = _first_site(opened, inputs)
    labels = grid_labels(site.grid, length) or numbered_labels(length, windowed=windows > 1)
    return Prepared(inputs, tuple(Token(NOT_TEXT, label) for label in labels))


class _ReachedError(HeadscopeError):
    """Ends a pass at the first site."""


def _first_site(opened: AnyTorchModel, inputs: Mapping[str, Tensor]) -> tuple[Site, int, int]:
    reached: list[tuple[Site, int, int]] = []

    def see(site: str, call: Call) -> Tensor:
        reached.append((opened.shape.sites[site], call.q.shape[2], call.q.shape[0]))
        raise _ReachedError

    try:
        with torch.no_grad(), opened.explained_errors(inputs):
            opened.run(inputs, see)
    except _ReachedError:
        return reached[0]
    raise InputError("these inputs reach none of the sites that were found when the model was opened")
