"""Save a look to one safetensors file and open it again, with or without the model that read it.

Dataclasses are written field by field: tensors into the file, the rest into its JSON header. Only the classes listed
here are made again, so opening a file runs no code of its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from headscope.attention import masks, scores
from headscope.attention.observation import Distance, Rows, Strongest
from headscope.errors import InputError
from headscope.files import parsing, write_atomic
from headscope.heads.edits.hidden_keys import Hidden
from headscope.heads.look.activation_cache import SiteActivations
from headscope.heads.look.look import Look
from headscope.models.huggingface.masks import IndexedKeys, RealKeys
from headscope.models.protocol import Prepared, Token
from headscope.models.recording import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.names import ModelShape, Site

SCHEMA_VERSION = 1
KEPT_TOKENS = 100  # likeliest next tokens per position whose text is kept, for predictions without a tokenizer

_CLASSES = {
    kind.__name__: kind
    for kind in (
        Token, Prepared, Site, ModelShape, SiteActivations, Rows, Distance, Strongest, scores.Scores, scores.DenseBias,
        scores.Alibi, scores.Relative, masks.Mask, masks.Causal, masks.Window, masks.Padding, masks.Documents,
        masks.Dense, Hidden, RealKeys, IndexedKeys,
    )
}  # fmt: skip


def save_look(look: Look, path: Path) -> None:
    """Write everything that can be shown without the model: tokens, logits, statistics, q, k and z of every site."""
    sites = {}
    for site in look.sites:
        source, seen = look.site_source(site), look.cache.sites[site]
        rows = dataclasses.replace(seen.rows, output=look.z(site)[None])
        sites[site] = SiteActivations(rows, seen.scores, seen.value_norms, (source.q, source.k))
    logits = look.logits
    likely = torch.unique(logits.topk(min(KEPT_TOKENS, logits.shape[-1])).indices.cpu())
    content = {
        "schema_version": SCHEMA_VERSION, "edits": look.key,
        "weights_sha256": look.model.sha256 if isinstance(look.model, _WithoutModel) else weight_hash(look.model.model),
        "shape": look.shape, "prepared": look.prepared, "logits": logits, "sites": sites,
        "reached": look.cache.reached, "n_windows": look.cache.n_windows,
        "vocabulary": tuple(look.model.processor.tokens_of(likely)),
    }  # fmt: skip
    tensors: dict[str, Tensor] = {}
    header = json.dumps(_encode(content, tensors), ensure_ascii=False)
    metadata = {"headscope_look": header, "sha256": _digest(header, tensors.__getitem__, tensors)}
    write_atomic(path, save(tensors, metadata=metadata))


def open_saved_look(path: Path, model: OpenModel | None = None) -> Look:
    """Open a saved look. With the model that read it, everything works that works on a fresh look."""
    with parsing(str(path), "save the look again"), safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        header = json.loads(metadata["headscope_look"])
        content = cast(dict[str, Any], _decode(header, file.get_tensor))
        version = content["schema_version"]
        if version != SCHEMA_VERSION:
            raise InputError(f"{path} has schema_version {version}; this program reads {SCHEMA_VERSION}")
        check_saved_look(content)
        if "sha256" not in metadata:
            warnings.warn(f"{path} was saved without a digest of its data: not verified", stacklevel=4)
        elif _digest(metadata["headscope_look"], file.get_tensor, file.keys()) != metadata["sha256"]:
            raise InputError(f"{path} is not what was saved (its SHA-256 differs); save the look again")
    if model is not None and not content["weights_sha256"]:
        raise InputError(f"{path} was captured from a server and knows no weights; open the capture itself")
    if model is not None and weight_hash(model.model) != content["weights_sha256"]:
        raise InputError(f"{path} was saved from {content['shape'].name} with other weights than this model's")
    if model is None or content["edits"]:  # the edits themselves are not in the file, so no pass can be run again
        known = {token.id: token for token in content["vocabulary"]}
        model = without_model(content["shape"], known, content["edits"], content["weights_sha256"])
    look = Look(model, content["prepared"], key=content["edits"])
    look.cache.sites, look.cache.reached = content["sites"], content["reached"]
    look.cache.n_windows, look.cache.logits = content["n_windows"], content["logits"][None]
    if not isinstance(model, _WithoutModel):
        look.cache.refuse_changed_weights()  # from now on
    return look


def _digest(header: str, tensor: Callable[[str], Tensor], names: Iterable[str]) -> str:
    """SHA-256 over the header, and the name, kind and bytes of every tensor."""
    made = hashlib.sha256(header.encode())
    for name in sorted(names):
        value = tensor(name)
        made.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        made.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return made.hexdigest()


class _Missing:
    """A part of a model that is not there: whatever is done with it is refused."""

    def __init__(self, edits: str) -> None:
        self._edits = edits

    def __call__(self, *_: Any, **__: Any) -> Any:
        way_out = f"make it again under its edits ({self._edits})" if self._edits else "give it: open_look(path, scope)"
        raise InputError(f"this look was opened from a file, and what was asked needs its model; {way_out}")

    def __getattr__(self, name: str) -> Any:
        return self()

    def state_dict(self) -> dict[str, Tensor]:
        """Return no weights: their hash matches no real model."""
        return {}


class _KnownTokens(_Missing):
    """Stands in for a tokenizer: knows the texts of the likeliest tokens."""

    def __init__(self, known: Mapping[int, Token], edits: str) -> None:
        super().__init__(edits)
        self._known = known

    def tokens_of(self, ids: Tensor) -> tuple[Token, ...]:
        return tuple(self._known.get(int(token), Token(int(token), f"[{int(token)}]")) for token in ids)


class _WithoutModel(OpenModel):
    """Stands in for a model that is not there: knows its shape and the texts of its likeliest tokens."""

    def __init__(self, shape: ModelShape, known: Mapping[int, Token], edits: str, sha256: str) -> None:
        self.shape, self.processor, self._missing = shape, cast(Any, _KnownTokens(known, edits)), _Missing(edits)
        self.sha256 = sha256
        """Of the weights; empty where they are not known."""
        self.notes, self.self_check, self.end_tokens, self.takes = (), None, frozenset(), frozenset()

    def __getattribute__(self, name: str) -> Any:
        own = name.startswith("_") or name in self.__dict__
        missing = name == "model" or (name in vars(OpenModel) and not own)
        return object.__getattribute__(self, "_missing" if missing else name)


def without_model(shape: ModelShape, known: Mapping[int, Token], edits: str = "", sha256: str = "") -> OpenModel:
    """Stand in for a model that is not there."""
    return cast(Any, _WithoutModel)(shape, known, edits, sha256)  # type: ignore[no-any-return]


def _encode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if dataclasses.is_dataclass(value) or hasattr(value, "_asdict"):
        if type(value).__name__ not in _CLASSES:
            raise InputError(
                f"a look whose scores need the model ({type(value).__name__}) cannot be saved; save the look without "
                "the ablated path"
            )
        names = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
        inside = {name: _encode(getattr(value, name), tensors) for name in names}
        return {"class": type(value).__name__, "fields": inside}
    if isinstance(value, Mapping):
        return {"map": {name: _encode(each, tensors) for name, each in value.items()}}
    return [_encode(each, tensors) for each in value] if isinstance(value, tuple | list) else value


def _decode(value: Any, tensor: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(each, tensor) for each in value)
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensor(value["tensor"])
    inside = {name: _decode(each, tensor) for name, each in value["map" if "map" in value else "fields"].items()}
    return inside if "map" in value else _CLASSES[value["class"]](**inside)


def check_saved_look(content: Mapping[str, Any]) -> None:
    """Raise a ValueError that explains the first field that does not fit the others."""
    shape, prepared, sites = content["shape"], content["prepared"], content["sites"]
    if not isinstance(shape, ModelShape) or not isinstance(prepared, Prepared) or not isinstance(sites, Mapping):
        raise ValueError("it describes no model, no text or no sites")
    if not all(type(count) is int and count > 0 for count in content["n_windows"].values()):
        raise ValueError(f"n_windows={content['n_windows']} are not counts")
    every = (prepared.tokens, prepared.decoder_tokens, content["vocabulary"])
    if not all(isinstance(token, Token) and type(token.id) is int for tokens in every for token in tokens):
        raise ValueError("one of its tokens is not a token")
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
