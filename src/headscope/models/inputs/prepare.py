"""What a person gives, for a model of transformers: text and messages, pictures and sound, or tensors by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.models.inputs import media
from headscope.models.inputs.patch_labels import places
from headscope.models.protocol import Prepared

if TYPE_CHECKING:
    from headscope.models.huggingface.model import HuggingFaceModel


def prepare(opened: HuggingFaceModel, given: Any) -> Prepared:
    """See ``OpenModel.prepare``."""
    medium, words = media.recognised(given)
    if medium is not None:
        made = opened.reader.medium(medium, words, opened.takes, opened.shape.name)
        return _tensors(opened, made, made)
    if isinstance(given, Mapping):
        return _tensors(opened, {key: value for key, value in given.items() if isinstance(value, Tensor)}, given)
    if isinstance(given, Tensor) and given.is_floating_point():
        return _tensors(opened, _main_input(opened, given), {})
    if "input_ids" not in opened.takes:
        reads = " and ".join(media.reads(opened.takes)) or f"tensors named {', '.join(sorted(opened.takes))}"
        raise InputError(f"{opened.shape.name} reads {reads}, not text")
    return opened.reader.prepare(given)


def _tensors(opened: HuggingFaceModel, tensors: dict[str, Tensor], given: Mapping[str, Any]) -> Prepared:
    wrong = [key for key in given if key not in tensors or key not in opened.takes]
    if wrong or not tensors:
        what = ", ".join(map(repr, wrong)) or "nothing"
        raise InputError(f"cannot give this model {what}; it takes tensors named {', '.join(sorted(opened.takes))}")
    ids, written = tensors.get("input_ids"), tensors.get("decoder_input_ids")
    for texts in (ids, written):
        if texts is not None and len(texts) != 1:
            raise InputError(f"{len(texts)} texts at once; look at one text at a time")
        if texts is not None:
            opened.reader.check(texts[0].tolist())
    opened.look_for_new_sites(tensors)
    said = () if written is None else opened.tokens_of(written[0])
    if ids is not None and not set(tensors) & media.KEYS:
        return Prepared(tensors, opened.tokens_of(ids[0]), said)
    config, processors = opened.model.config, opened.reader.processors
    named = {
        stack: places(config, media.of_stack(stack, tensors), count, processors, cut=pieces > 1)
        for stack, (count, pieces) in _counts(opened, tensors).items()
    }
    if ids is None:
        return Prepared(tensors, next(iter(named.values()), ()), said)
    beside = {stack: names for stack, names in named.items() if stack in media.STACKS}
    return Prepared(tensors, opened.tokens_of(ids[0]), said, beside)


def _main_input(opened: HuggingFaceModel, features: Tensor) -> dict[str, Tensor]:
    """Features under the name that the model gives its first input; a decoder beside them begins."""
    name = str(getattr(opened.model, "main_input_name", "input_ids"))
    made = {name: features[None] if features.ndim == media.AXES.get(name, 4) - 1 else features}
    if len(made[name]) != 1:
        raise InputError(f"{len(made[name])} of {name} at once; look at one at a time")
    if opened.reader.start is not None and "decoder_input_ids" in opened.takes:
        made["decoder_input_ids"] = torch.tensor([[opened.reader.start]])
    return made


def _counts(opened: HuggingFaceModel, inputs: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
    """How many places each stack of sites has for these inputs, and in how many pieces, told by its first site."""
    counts: dict[str, tuple[int, int]] = {}

    def count(site: str, call: Call) -> Tensor:
        stack = site.partition(".")[0]
        counts.setdefault("" if stack.isdigit() else stack, (call.q.shape[2], call.q.shape[0]))
        return plain(call)

    with torch.no_grad(), opened.saying_what_does_not_run(inputs):
        opened.run(inputs, count)
    return counts
