"""Refuse a saved look whose header says other sizes than its tensors have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headscope.heads.look.activation_cache import SiteActivations
from headscope.models.protocol import Prepared, Token
from headscope.names import ModelShape, Site


def check_saved_look(content: Mapping[str, Any]) -> None:
    """Raise a ValueError, in words, at the first field that does not fit the others."""
    shape, prepared, sites = content["shape"], content["prepared"], content["sites"]
    if not isinstance(shape, ModelShape) or not isinstance(prepared, Prepared) or not isinstance(sites, Mapping):
        raise ValueError("it describes no model, no text or no sites")
    if not all(type(count) is int and count > 0 for count in content["n_windows"].values()):
        raise ValueError(f"n_windows={content['n_windows']} are no counts")
    every = (prepared.tokens, prepared.decoder_tokens, content["vocabulary"])
    if not all(isinstance(token, Token) and type(token.id) is int for tokens in every for token in tokens):
        raise ValueError("a token is no token")
    ids = prepared.inputs.get("input_ids")
    if ids is not None and ids.shape[-1] != len(prepared.tokens):
        raise ValueError(f"{len(prepared.tokens)} tokens for {ids.shape[-1]} ids")
    logits = content["logits"]
    if shape.vocabulary is not None and logits.shape[-1:] != (shape.vocabulary,):
        raise ValueError(f"logits of shape {tuple(logits.shape)} for a vocabulary of {shape.vocabulary}")
    if set(content["reached"]) != set(sites) or not set(sites) <= set(shape.sites):
        raise ValueError(f"sites {sorted(sites)} of a model with {sorted(shape.sites)}")
    for name, kept in sites.items():
        _check_site(name, shape.sites[name], kept, content["reached"][name])


def _check_site(name: str, site: Site, kept: SiteActivations, reached: tuple[int, int]) -> None:
    sizes = (site.n_heads, site.n_kv_heads, site.d_head, site.d_value)
    if any(type(size) is not int or size < 1 for size in sizes) or site.n_heads % site.n_kv_heads:
        raise ValueError(f"site {name} has sizes {sizes}")
    q, k = kept.kept or (None, None)
    if q is None or k is None:
        raise ValueError(f"site {name} has no q and k")
    n_queries, n_keys = reached
    rows = kept.rows
    _sized(f"q of site {name}", q, (site.n_heads, n_queries, q.shape[-1]))
    _sized(f"k of site {name}", k, (site.n_kv_heads, n_keys, q.shape[-1]))
    _sized(f"z of site {name}", rows.output, (site.n_heads, n_queries, site.d_value))
    per_row = {"logsumexp": rows.logsumexp, "entropy": rows.entropy, **(rows.mass or {})}
    if rows.distance is not None:
        per_row |= {"mean distance": rows.distance.mean, "spread of distance": rows.distance.std}
    if rows.strongest is not None:
        per_row |= {"strongest key": rows.strongest.key, "strongest weight": rows.strongest.weight}
        strongest = rows.strongest.key.flatten().tolist()
        if not all(-1 <= key < n_keys for key in strongest):
            raise ValueError(f"a strongest key of site {name} is none of its {n_keys} keys")
    for what, each in per_row.items():
        if each is not None:
            _sized(f"{what} of site {name}", each, (site.n_heads, n_queries))


def _sized(what: str, tensor: Tensor, size: tuple[int, ...]) -> None:
    if tuple(tensor.shape[-len(size) :]) != size or tensor.ndim > len(size) + 1:
        raise ValueError(f"{what} has shape {tuple(tensor.shape)}, which should end in {size}")
