"""Dispatch an input to its reader (text and chat in ``tokens``, pictures and sound in ``media``); label positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.models.inputs import media
from headscope.models.inputs.media_positions import (
    image_token_id,
    listed_grid,
    name_image_tokens,
    patch_grid,
    position_labels,
)
from headscope.models.protocol import Prepared, Token
from headscope.models.recording import OpenModel


def prepare(opened: OpenModel, given: Any) -> Prepared:
    """See ``OpenModel.prepare``."""
    made = None if isinstance(given, str) else _other_than_text(opened, given)
    if made is not None:
        return made
    if "input_ids" not in opened.takes:
        reads = " and ".join(media.input_kinds(opened.takes)) or f"tensors named {', '.join(sorted(opened.takes))}"
        file = f"; a file is given as Path({given!r})" if isinstance(given, str) else ""
        raise InputError(f"{opened.shape.name} reads {reads}, not text{file}")
    prepared = opened.processor.prepare(given)
    if opened.takes & media.KEYS and opened not in _READ_TEXT_ALONE:
        _try_text_alone(opened, prepared)
    return prepared


def _other_than_text(opened: OpenModel, given: Any) -> Prepared | None:
    medium, text = media.recognise(given)
    if medium is not None:
        made = opened.processor.media_inputs(medium, text, opened.takes, opened.shape.name)
        made = _with_prompt(opened, made, text)
        return _with_sound(_from_tensors(opened, made, made), medium, opened.processor.media)
    if isinstance(given, Mapping):
        return _from_tensors(opened, {key: value for key, value in given.items() if isinstance(value, Tensor)}, given)
    if isinstance(given, Tensor) and given.is_floating_point():
        return _from_tensors(opened, _main_input(opened, given), {})
    return None


_READ_TEXT_ALONE: WeakSet[OpenModel] = WeakSet()
"""Models that take pictures or sound and are known to run on a text without."""

SHORT = 4  # tokens of a text on which a model is tried


def _try_text_alone(opened: OpenModel, prepared: Prepared) -> None:
    """Refuse a text for a model that cannot run without a picture or sound, as CLIP's two towers."""
    short = {**prepared.inputs, "input_ids": prepared.inputs["input_ids"][:, :SHORT]}
    with torch.no_grad(), opened.explained_errors(short):
        opened.run(short)
    _READ_TEXT_ALONE.add(opened)


def _with_sound(prepared: Prepared, medium: media.Picture | media.Sound, processors: media.MediaProcessors) -> Prepared:
    """Keep the samples of a sound; a model may read only features that were made of them."""
    if not isinstance(medium, media.Sound):
        return prepared
    rate = medium.rate or getattr(processors.sound, "sampling_rate", None)
    return replace(prepared, samples=torch.from_numpy(medium.samples.copy()), sampling_rate=rate)


def _with_prompt(opened: OpenModel, made: dict[str, Tensor], text: str | None) -> dict[str, Tensor]:
    """Give the decoder what its own ``generate`` would: its prompt, then the text that was given as written so far."""
    if DECODER_INPUTS not in made:
        return made
    prompt = decoder_prompt(opened.model, made)
    if prompt is None:
        return made
    written = [] if text is None or "input_ids" in made else opened.processor.token_ids(text)
    return {**made, DECODER_INPUTS: torch.tensor([[*prompt, *written]])}


def _from_tensors(opened: OpenModel, tensors: dict[str, Tensor], given: Mapping[str, Any]) -> Prepared:
    wrong = [key for key in given if key not in tensors or key not in opened.takes]
    if wrong or not tensors:
        what = ", ".join(map(repr, wrong)) or "nothing"
        raise InputError(f"cannot give this model {what}; it takes tensors named {', '.join(sorted(opened.takes))}")
    tokens, decoder_tokens = (_tokens(opened, tensors.get(key)) for key in ("input_ids", "decoder_input_ids"))
    opened.find_new_sites(tensors)
    if "input_ids" in tensors and not set(tensors) & media.KEYS:
        return Prepared(tensors, tokens, decoder_tokens)
    config, processors = opened.model.config, opened.processor.media
    labels = {
        stack: position_labels(config, media.inputs_of_stack(stack, tensors), count, processors, windowed=n_windows > 1)
        for stack, (count, n_windows) in _positions_by_stack(opened, tensors).items()
    }
    if "input_ids" not in tensors:
        return Prepared(tensors, next(iter(labels.values()), ()), decoder_tokens)
    beside = {stack: names for stack, names in labels.items() if stack in media.STACKS}
    vision = patch_grid(beside.get("vision", ())) or listed_grid(tensors)
    return Prepared(tensors, name_image_tokens(tokens, image_token_id(config), vision), decoder_tokens, beside)


def _tokens(opened: OpenModel, ids: Tensor | None) -> tuple[Token, ...]:
    if ids is None:
        return ()
    if len(ids) != 1:
        raise InputError(f"{len(ids)} texts at once; look at one text at a time")
    opened.processor.check(ids[0].tolist())
    return opened.processor.tokens_of(ids[0])


def _main_input(opened: OpenModel, features: Tensor) -> dict[str, Tensor]:
    """Features under the name of the model's first input, and the start token of its decoder if it has one."""
    name = str(getattr(opened.model, "main_input_name", "input_ids"))
    inputs = {name: features[None] if features.ndim == media.AXES.get(name, 4) - 1 else features}
    if len(inputs[name]) != 1:
        raise InputError(f"{len(inputs[name])} of {name} at once; look at one at a time")
    if opened.processor.start is not None and "decoder_input_ids" in opened.takes:
        inputs["decoder_input_ids"] = torch.tensor([[opened.processor.start]])
    return inputs


def _positions_by_stack(opened: OpenModel, inputs: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
    """Number of positions and of windows in each stack of sites, read off its first site."""
    counts: dict[str, tuple[int, int]] = {}

    def count(site: str, call: Call) -> Tensor:
        stack = site.partition(".")[0]
        counts.setdefault("" if stack.isdigit() else stack, (call.q.shape[2], call.q.shape[0]))
        return plain(call)

    with torch.no_grad(), opened.explained_errors(inputs):
        opened.run(inputs, count)
    return counts


DECODER_INPUTS = "decoder_input_ids"


def decoder_prompt(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[int] | None:
    """The decoder's tokens before it writes anything, read off the first step of ``generate``.

    Whisper's holds the language that it hears, its task, and whether it writes times; None where a model does not
    generate.
    """
    generate: Any = getattr(model, "generate", None)
    can: Any = getattr(model, "can_generate", None)
    if generate is None or can is None or not can():
        return None
    given = {name: value for name, value in inputs.items() if name != DECODER_INPUTS}
    fed: list[Tensor] = []

    def keep(module: nn.Module, args: Any, kwargs: Any) -> None:
        if isinstance(kwargs.get(DECODER_INPUTS), Tensor):
            fed.append(kwargs[DECODER_INPUTS])

    hook = model.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with torch.no_grad():
            generate(**given, max_new_tokens=1, do_sample=False)
    except (ValueError, TypeError, RuntimeError, LookupError, AttributeError):  # a config without what generate needs
        return None
    finally:
        hook.remove()
    return [int(token) for token in fed[-1][0]] if fed else None
