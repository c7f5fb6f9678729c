"""What a trace says about a model: its sites by name, its shape, and what a person should know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.masks import Causal, Dense, Window
from headscope.attention.observer import Call
from headscope.errors import ModelError
from headscope.models.structure.output_weight import OutputPath
from headscope.models.structure.site_names import name_sites, stack_of
from headscope.models.structure.trace import Trace
from headscope.names import AttentionKind, Site


@dataclass(frozen=True)
class Described:
    """Sites in the order they are reached. ``names`` and ``paths`` lead from module paths to site names and back."""

    sites: dict[str, Site]
    names: dict[str, str]
    paths: dict[str, str]
    order: list[str]


def describe(model: nn.Module, seen: Trace, inputs: Mapping[str, Tensor], known: Mapping[str, str]) -> Described:
    """Every site of the trace, named; ``known`` are names by path that were given before."""
    kinds = {visit.path: _kind(visit.arrival.call, inputs) for visit in seen.visits}
    names = {**names_of(model, list(kinds), kinds, known), **{path: known[path] for path in kinds if path in known}}
    sites, paths, order = {}, {}, []
    for visit in seen.visits:
        name = names[visit.path] if visit.times == 1 else f"{names[visit.path]}@{visit.times}"
        order.append(name)
        paths[name] = visit.path
        found = site_from_call(name, visit.arrival.call, visit.arrival.sliding_window)
        sites[name] = Site(**{**vars(found), "kind": kinds[visit.path]})
    return Described(sites, names, paths, order)


def names_of(
    model: nn.Module, paths: list[str], kinds: Mapping[str, AttentionKind], known: Mapping[str, str]
) -> dict[str, str]:
    """Names for paths, in words where they are free."""
    names = name_sites(paths, kinds, _stacks(model, paths))
    taken = {name for path, name in known.items() if path not in names}
    return {path: path if name in taken else name for path, name in names.items()}


def site_from_call(name: str, call: Call, sliding_window: int | None) -> Site:
    """A site's sizes, and what its mask says about causality and a window."""
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
    """Self, cross, or both in one: told by lengths, which the probe chose to differ."""
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    if n_query == n_key:
        return "self"
    written = inputs.get("decoder_input_ids")
    if written is not None and n_query == written.shape[1] and n_key > n_query and not call.scores.mask.is_full:
        parts = call.scores.mask.parts
        square = [part for part in parts if isinstance(part, Dense)]
        if square and _looks_causal(square[0].allowed[..., :n_query]):
            return "merged"
    return "cross"


def _stacks(model: nn.Module, paths: list[str]) -> list[str]:
    """The words this model needs. The language stack of a model that generates is plain, whatever stands beside it."""
    config: Any = getattr(model, "config", None)
    inner = set(getattr(config, "sub_configs", {}))
    stacks = ["vision", "audio"] if inner else []
    sides = {stack_of(path, ["decoder", "encoder"]) for path in paths}
    if getattr(config, "is_encoder_decoder", False) or {"decoder", "encoder"} <= sides:
        stacks += ["decoder", "encoder"]
    elif any("text" in name for name in inner) and not _generates(model):
        stacks += ["text"]
    return stacks


def _generates(model: nn.Module) -> bool:
    can: Any = getattr(model, "can_generate", None)
    return bool(can()) if callable(can) else False


def width_of(model: nn.Module) -> int:
    """d_model: the width of the residual stream that tokens are read into."""
    config: Any = getattr(model, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for part in (text, config, getattr(config, "vision_config", None)):
        for name in ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim"):
            value = getattr(part, name, None)
            if isinstance(value, int):
                return value
    weight = getattr(input_table(model), "weight", None)
    return int(weight.shape[-1]) if isinstance(weight, Tensor) else 0


def input_table(model: nn.Module) -> Any:
    """The table of token embeddings, or None: some classes have no such thing and say so by raising."""
    try:
        return getattr(model, "get_input_embeddings", lambda: None)()
    except (AttributeError, NotImplementedError):
        return None


_ANSWERS = ("logits", "last_hidden_state", "prediction_logits", "logits_per_text", "logits_per_image", "start_logits")


def logits_of(answer: Any) -> Tensor:
    """The logits of an answer, else its last hidden states, as ``[batch, place, number]``."""
    for name in _ANSWERS:
        value = getattr(answer, name, None)
        if isinstance(value, Tensor):
            return _three_axes(value)
    values = list(answer.values()) if isinstance(answer, Mapping) else answer
    for value in values if isinstance(values, tuple | list) else [values]:
        if isinstance(value, Tensor) and value.is_floating_point():
            return _three_axes(value)
    raise ModelError(f"the model answered with {type(answer).__name__}, which holds neither logits nor hidden states")


def predicts_tokens(answer: Any) -> bool:
    """Whether the answer holds a score for every token at every place; an encoder without a head has none."""
    logits = getattr(answer, "logits", None)
    return isinstance(logits, Tensor) and logits.ndim == 3


def _three_axes(value: Tensor) -> Tensor:
    if value.ndim < 3:
        return value.reshape(value.shape[0] if value.ndim else 1, 1, -1)
    return value if value.ndim == 3 else value.flatten(2).transpose(1, 2)


def not_reached(model: nn.Module, name: str, seen: Trace) -> str:
    """Why a model cannot be seen: it ran, and our function was never called."""
    kind = getattr(getattr(model, "config", None), "model_type", None) or type(model).__name__
    own = sorted({type(model.get_submodule(path)).__name__ for path in seen.unseen if path})
    does = f"it computes attention itself, in {', '.join(own[:3])}" if own else "no softmax attention was seen in it"
    return f"{kind} does not call the attention interface of transformers, so its heads cannot be seen: {does} ({name})"


def notes_on(
    model: nn.Module,
    seen: Trace,
    inputs: Mapping[str, Tensor],
    follows: Mapping[str, OutputPath],
    paths: Mapping[str, str],
) -> list[str]:
    """What a person should know before trusting a picture of this model."""
    notes = []
    sites = set(paths.values())
    outside = {path: how for path, how in seen.unseen.items() if path not in sites and _is_attention(path, how)}
    if outside:
        where = ", ".join(f"{path or 'the model itself'} ({how})" for path, how in list(outside.items())[:4])
        more = f" and {len(outside) - 4} more" if len(outside) > 4 else ""
        notes.append(f"attention outside transformers' interface is not seen: {where}{more}")
    quiet = _not_run(model, seen, sites)
    if quiet:
        notes.append(f"not run by the inputs it was opened with, so not seen yet: {', '.join(quiet)}")
    pieces = _cut_into_pieces(seen, inputs)
    cut = [site for site, path in paths.items() if path in pieces]
    if cut:
        notes.append(
            f"{_span(cut)} cut what they are given into pieces (windows, tiles, frames) that attend each on its own; "
            "a look shows the first piece, an edit changes all of them"
        )
    after = [site for site, how in follows.items() if how.after is not None]
    if after:
        notes.append(f"a norm stands between W_O and the residual stream of {_span(after)}; head parts are before it")
    by_reason: dict[str, list[str]] = {}
    for site, how in follows.items():
        if how.why:
            by_reason.setdefault(f"{how.kind}: {how.why}", []).append(site)
    for reason, names in by_reason.items():
        notes.append(f"head parts of {_span(names)} are {reason}")
    return notes


def _not_run(model: nn.Module, seen: Trace, sites: set[str]) -> list[str]:
    """Sub-models that took no part in the pass: the vision tower of a model that was given text alone."""
    from transformers import PreTrainedModel

    ran = {leaf.path for leaf in seen.leaves} | sites
    parts = [path for path, part in model.named_modules() if path and isinstance(part, PreTrainedModel)]
    idle = [path for path in parts if not any(other.startswith(f"{path}.") for other in ran)]
    return [path for path in idle if not any(path.startswith(f"{other}.") for other in idle)]


def _cut_into_pieces(seen: Trace, inputs: Mapping[str, Tensor]) -> set[str]:
    """Paths of modules whose calls have more items than they were given."""
    given = inputs.get("input_ids", next(iter(inputs.values())))
    return {visit.path for visit in seen.visits if visit.arrival.call.q.shape[0] > len(given)}


def _is_attention(path: str, how: str) -> bool:
    words = path.lower()
    return how != "softmax" or "att" in words or "head" in words


def _span(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 5 else f"{names[0]} … {names[-1]} ({len(names)} sites)"
