"""Describe a model from its trace: its sites by name, its widths and outputs, and notes for the user.

Sites are named by what tells their module paths apart: layer numbers, the stack, and `cross`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from headscope.attention.masks import Causal, Dense, Window
from headscope.attention.observer import Call
from headscope.errors import ModelError
from headscope.models.structure.trace import TracedPass
from headscope.models.structure.weights import OutputPath
from headscope.names import AttentionKind, Site


@dataclass(frozen=True)
class _FoundSites:
    """Sites in the order of their calls. ``names`` is by module path, ``paths`` by site name."""

    sites: dict[str, Site]
    names: dict[str, str]
    paths: dict[str, str]


def find_sites(
    model: nn.Module, traced: TracedPass, inputs: Mapping[str, Tensor], known: Mapping[str, str]
) -> _FoundSites:
    """Name and describe every site of the trace; ``known`` are names by path that were given before."""
    kinds = {call.path: _kind(call.attention.call, inputs) for call in traced.calls}
    names = {**names_of(model, list(kinds), kinds, known), **{path: known[path] for path in kinds if path in known}}
    sites, paths = {}, {}
    for call in traced.calls:
        name = names[call.path] if call.times == 1 else f"{names[call.path]}@{call.times}"
        paths[name] = call.path
        site = site_from_call(name, call.attention.call, call.attention.sliding_window)
        sites[name] = replace(site, kind=kinds[call.path])
    return _FoundSites(sites, names, paths)


def names_of(
    model: nn.Module, paths: list[str], kinds: Mapping[str, AttentionKind], known: Mapping[str, str]
) -> dict[str, str]:
    """Short names for module paths; the path itself where a name is taken."""
    names = name_sites(paths, kinds, _stacks(model, paths))
    taken = {name for path, name in known.items() if path not in names}
    return {path: path if name in taken else name for path, name in names.items()}


def site_from_call(name: str, call: Call, sliding_window: int | None) -> Site:
    """A site's sizes from its tensors, its causality and window from its mask."""
    parts = call.scores.mask.parts
    windows = [part.width for part in parts if isinstance(part, Window)]
    causal = any(
        isinstance(part, Causal) or (isinstance(part, Dense) and _looks_causal(part.allowed)) for part in parts
    )
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    return Site(
        name=name,
        n_heads=call.q.shape[1],
        n_kv_heads=call.k.shape[1],
        d_head=call.q.shape[3],
        d_value=call.v.shape[3],
        kind="cross" if n_query != n_key and not causal else "self",
        causal=causal,
        window=min(windows, default=sliding_window if causal else None),
    )


def _looks_causal(allowed: Tensor) -> bool:
    n_query, n_key = allowed.shape[2:]
    if n_query == 1:
        return False
    ahead = torch.ones(n_query, n_key, dtype=torch.bool, device=allowed.device).triu(n_key - n_query + 1)
    return not bool((allowed & ahead).any())


def _kind(call: Call, inputs: Mapping[str, Tensor]) -> AttentionKind:
    """Self, cross, or both merged, recognised by the lengths of query and key, which differ in the probe inputs."""
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    if n_query == n_key:
        return "self"
    target = inputs.get("decoder_input_ids")
    if target is not None and n_query == target.shape[1] and n_key > n_query:
        dense = [part for part in call.scores.mask.parts if isinstance(part, Dense)]
        if dense and _looks_causal(dense[0].allowed[..., :n_query]):
            return "merged"
    return "cross"


def _stacks(model: nn.Module, paths: list[str]) -> list[str]:
    """The words that tell this model's stacks apart. The language stack of a model that generates needs none."""
    config: Any = getattr(model, "config", None)
    inner = set(getattr(config, "sub_configs", {}))
    stacks = ["vision", "audio"] if inner else []
    sides = {stack_of(path, ["decoder", "encoder"]) for path in paths}
    if getattr(config, "is_encoder_decoder", False) or {"decoder", "encoder"} <= sides:
        stacks += ["decoder", "encoder"]
    elif any("text" in name for name in inner) and not getattr(model, "can_generate", lambda: False)():
        stacks += ["text"]
    return stacks


def width_of(model: nn.Module) -> int:
    """d_model, from the config or the token embedding."""
    config: Any = getattr(model, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for part in (text, config, getattr(config, "vision_config", None)):
        for name in ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim"):
            value = getattr(part, name, None)
            if isinstance(value, int):
                return value
    weight = getattr(input_embedding(model), "weight", None)
    return int(weight.shape[-1]) if isinstance(weight, Tensor) else 0


def input_embedding(model: nn.Module) -> Any:
    """The module of token embeddings, or None; in a model that does not name it, its first embedding."""
    getter: Any = getattr(model, "get_input_embeddings", None)
    try:
        return next((m for m in model.modules() if isinstance(m, nn.Embedding)), None) if getter is None else getter()
    except (AttributeError, NotImplementedError):
        return None


_OUTPUTS = ("logits", "last_hidden_state", "prediction_logits", "logits_per_text", "logits_per_image", "start_logits")


def logits_of(output: Any) -> Tensor:
    """The logits of a model's output, else its first floating-point tensor, as ``[batch, position, number]``.

    A list of tensors of one shape in a field of it holds the layers' outputs: the last is taken.
    """
    fields = output
    if not isinstance(output, Tensor | tuple | list):
        own = output if isinstance(output, Mapping) else getattr(output, "__dict__", {})
        fields = [*own.values(), *map(_last_layer, own.values())]
    top = fields if isinstance(fields, tuple | list) else [fields]
    tensors = [*(getattr(output, name, None) for name in _OUTPUTS), *top, *tree_leaves(fields)]
    found = next((value for value in tensors if isinstance(value, Tensor) and value.is_floating_point()), None)
    if found is None:
        raise ModelError(f"the model returned {type(output).__name__}, which has neither logits nor hidden states")
    if found.ndim < 3:
        return found.reshape(found.shape[0] if found.ndim else 1, 1, -1)
    return found if found.ndim == 3 else found.flatten(2).transpose(1, 2)


def _last_layer(value: Any) -> Any:
    alike = isinstance(value, list | tuple) and all(isinstance(each, Tensor) for each in value)
    return value[-1] if alike and len({each.shape for each in value}) == 1 else value


def predicts_tokens(output: Any) -> bool:
    """Whether a model's output has a logit for every token at every position; an encoder without a head has none."""
    logits = getattr(output, "logits", None)
    return isinstance(logits, Tensor) and logits.ndim == 3


class NoInterfaceError(ModelError):
    """A transformers model that ran on ``probe`` without calling our attention function; see ``any_torch``."""

    def __init__(self, message: str, probe: Mapping[str, Tensor]) -> None:
        super().__init__(message)
        self.probe = probe


def not_reached(model: nn.Module, name: str, traced: TracedPass) -> str:
    """Why a model cannot be observed: it ran, and our attention function was never called."""
    kind = getattr(getattr(model, "config", None), "model_type", None) or type(model).__name__
    own = sorted({type(model.get_submodule(path)).__name__ for path in traced.other_attention if path})
    does = f"it computes attention itself, in {', '.join(own[:3])}" if own else "it has no softmax attention"
    return f"{kind} does not call transformers' attention interface, so its heads cannot be observed: {does} ({name})"


def notes_on(
    model: nn.Module,
    traced: TracedPass,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, OutputPath],
    paths: Mapping[str, str],
    normed: Collection[str],
) -> list[str]:
    """What a user should know about this model: what is not observed, and how head parts are to be read."""
    notes = []
    sites = set(paths.values())
    outside = {
        path: function
        for path, function in traced.other_attention.items()
        if path not in sites and (function != "softmax" or any(word in path.lower() for word in ("att", "head")))
    }
    if outside:
        where = ", ".join(f"{path or 'the model itself'} ({function})" for path, function in list(outside.items())[:4])
        more = f" and {len(outside) - 4} more" if len(outside) > 4 else ""
        notes.append(f"attention outside transformers' interface is not observed: {where}{more}")
    idle = _not_run(model, traced, sites)
    if idle:
        notes.append(f"not run by the inputs it was opened with, so not observed yet: {', '.join(idle)}")
    given = inputs.get("input_ids", next(iter(inputs.values())))
    windowed = {call.path for call in traced.calls if call.attention.call.q.shape[0] > len(given)}
    by_note: dict[str, list[str]] = {}
    for site, path in paths.items():
        if path in windowed:
            by_note.setdefault(WINDOWED, []).append(site)
    if normed:
        by_note[POST_NORM] = [site for site in outputs if site in normed]
    for site, output in outputs.items():
        if output.why:
            by_note.setdefault(f"head parts of {{sites}} are {output.kind}: {output.why}", []).append(site)
    return notes + [note.format(sites=span(names)) for note, names in by_note.items()]


WINDOWED = (
    "{sites} split their input into windows (tiles, frames) that attend each on its own; "
    "a look shows the first window, an edit changes all of them"
)
POST_NORM = "a norm lies between W_O and the residual stream of {sites}; head parts are before it"


def _not_run(model: nn.Module, traced: TracedPass, sites: set[str]) -> list[str]:
    """Sub-models that took no part in the pass: the vision tower of a model that was given only text."""
    from transformers import PreTrainedModel

    ran = traced.ran | sites
    parts = [path for path, part in model.named_modules() if path and isinstance(part, PreTrainedModel)]
    idle = [path for path in parts if not any(other.startswith(f"{path}.") for other in ran)]
    return [path for path in idle if not any(path.startswith(f"{other}.") for other in idle)]


def span(names: Sequence[str]) -> str:
    """A list of sites in a sentence."""
    return ", ".join(names) if len(names) < 5 else f"{names[0]} … {names[-1]} ({len(names)} sites)"


# A path belongs to the first of these stacks that has one of its words before the path's first number.
_STACKS = {
    "vision": ("vision", "visual", "image", "vit", "video"),
    "audio": ("audio", "speech", "sound"),
    "decoder": ("decoder",),
    "encoder": ("encoder",),
    "text": ("text",),
}


def name_sites(paths: Sequence[str], kinds: Mapping[str, AttentionKind], stacks: Sequence[str]) -> dict[str, str]:
    """A name for each path. ``stacks`` are the words that this model needs to tell its stacks apart."""
    varying = _varying_numbers(paths)
    named = {
        path: _name(path, varying[_template(path)], stacks) + (".cross" if kinds.get(path) == "cross" else "")
        for path in paths
    }
    sharing: dict[str, list[str]] = {}
    for path, name in named.items():
        sharing.setdefault(name, []).append(path)
    longer = {path: _longer(path, named[path], sharing[named[path]]) for path in paths}
    return {path: name if list(longer.values()).count(name) == 1 else path for path, name in longer.items()}


def names_of_layers(paths: Collection[str]) -> dict[str, str]:
    """Name sites by layer number if each layer has one of these paths; otherwise return no names."""
    alike = len({_template(path) for path in paths}) == 1 and all(_numbers(path) for path in paths)
    return name_sites(sorted(paths), {}, []) if alike else {}


def _template(path: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _numbers(path: str) -> list[str]:
    return [word for word in path.split(".") if word.isdigit()]


def _varying_numbers(paths: Sequence[str]) -> dict[str, list[int]]:
    """For each path template, which of its numbers tell sites apart: the first always, others if they differ."""
    groups: dict[str, list[list[str]]] = {}
    for path in paths:
        groups.setdefault(_template(path), []).append(_numbers(path))
    return {
        template: [index for index in range(len(rows[0])) if index == 0 or len({row[index] for row in rows}) > 1]
        for template, rows in groups.items()
    }


def _name(path: str, varying: list[int], stacks: Sequence[str]) -> str:
    numbers = _numbers(path)
    layer = ".".join(numbers[index] for index in varying) or path.split(".")[-1]
    stack = stack_of(path, stacks)
    return f"{stack}.{layer}" if stack else layer


def stack_of(path: str, stacks: Sequence[str]) -> str:
    """Which of these stacks a path belongs to; "" for none."""
    words = re.split(r"\.\d+(?:\.|$)", path)[0].lower()
    return next((stack for stack in stacks if any(mark in words for mark in _STACKS[stack])), "")


def _longer(path: str, name: str, sharing: list[str]) -> str:
    """Where several sites share a name, add the first word that tells their paths apart, before or after it."""
    if len(sharing) == 1:
        return name
    words = [other.split(".") for other in sharing]
    mine = path.split(".")
    for index, word in enumerate(mine):
        if len({other[index] if index < len(other) else "" for other in words}) > 1 and not word.isdigit():
            before_layer = not any(earlier.isdigit() for earlier in mine[:index])
            return f"{word}.{name}" if before_layer else f"{name}.{word}"
    return path
