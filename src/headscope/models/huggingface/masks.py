"""Attention masks of transformers as headscope masks: causal, a window, padding, packed documents.

transformers asks a registered mask function for a tensor. Ours returns a ``LazyMask``: a tensor without elements that
carries a ``Mask``. The attention function takes the ``Mask`` out; any other operation on the tensor materialises it
first, so a model family that edits its mask works as with an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.utils._pytree import tree_map

from headscope.attention import masks
from headscope.attention.masks import Allowed, Columns, Mask, Part, Rows
from headscope.errors import MaskError


class LazyMask(Tensor):
    """A mask tensor ``[batch, 1, query, key]`` whose elements are computed when they are first used."""

    mask: Mask
    _dense: Tensor | None

    @staticmethod
    def __new__(cls, mask: Mask, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> LazyMask:
        made: LazyMask = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        made.mask, made._dense = mask, None
        return made

    def dense(self) -> Tensor:
        """The elements: True where attention is allowed, or 0 and the lowest number of a floating dtype."""
        if self._dense is None:
            batch, _, n_query, n_key = self.shape
            allowed = self.mask.bind(batch, 1, n_query, n_key).dense(n_query, n_key, self.device)
            allowed = allowed.expand(batch, 1, n_query, n_key)
            if self.dtype != torch.bool:
                allowed = torch.where(allowed, 0.0, torch.finfo(self.dtype).min).to(self.dtype)
            self._dense = allowed
        return self._dense

    def copy(self) -> LazyMask:
        """Return the same mask as a new tensor, because a view cannot be its own base."""
        made = LazyMask(self.mask, tuple(self.shape), self.dtype, self.device)
        made._dense = self._dense
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func in _VIEWS and _keeps_all(func, args, kwargs or {}):
            return args[0].copy()
        args, kwargs = tree_map(lambda a: a.dense() if isinstance(a, LazyMask) else a, (args, kwargs or {}))
        return func(*args, **kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"LazyMask({self.mask!r}, {'×'.join(map(str, self.shape))})"


_aten = torch.ops.aten
_VIEWS = {_aten.slice.Tensor, _aten.alias.default, _aten.detach.default, _aten.expand.default}


def _keeps_all(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a view has all elements of the mask: many families crop a mask to the length it already has."""
    mask = args[0]
    if func is _aten.slice.Tensor:
        given = list(args[1:])
        dim, start, end, step = given + [0, None, None, 1][len(given) :]
        size = mask.shape[dim]
        return not kwargs and (start or 0) == 0 and (end is None or end >= size) and step == 1
    if func is _aten.expand.default:
        return len(args[1]) == mask.ndim and all(new in (-1, old) for new, old in zip(args[1], mask.shape, strict=True))
    return True


def bool_mask(**request: Any) -> Tensor | None:
    """Mask function for sub-models that support sdpa: True where attention is allowed; causality is never left out."""
    from transformers.masking_utils import sdpa_mask

    return _lazy_mask(sdpa_mask, torch.bool, request)


def float_mask(**request: Any) -> Tensor | None:
    """Mask function for sub-models that only support eager attention: 0, or the lowest number of their dtype."""
    from transformers.masking_utils import eager_mask

    return _lazy_mask(eager_mask, request.get("dtype", torch.float32), request)


def _lazy_mask(original: Callable[..., Tensor | None], dtype: torch.dtype, request: dict[str, Any]) -> Tensor | None:
    compiling = torch.compiler.is_compiling()
    if request.get("allow_is_bidirectional_skip") and not compiling:
        padding, local = request.get("attention_mask"), request.get("local_size")
        if (padding is None or bool(padding.all())) and (local is None or request["kv_length"] < local):
            return None
    mask = None if compiling else requested_mask(request)
    if mask is None:
        return original(**request | {"allow_is_causal_skip": False})
    shape = (request["batch_size"], 1, request["q_length"], request["kv_length"])
    return LazyMask(mask, shape, dtype, torch.device(request.get("device", "cpu")))


def requested_mask(request: dict[str, Any]) -> Mask | None:
    """The ``Mask`` that transformers asks for; None where it has a part that ``Mask`` cannot express."""
    q_offset, kv_offset = request.get("q_offset", 0), request.get("kv_offset", 0)
    n_query, n_key, function = request["q_length"], request["kv_length"], request.get("mask_function")
    if isinstance(q_offset, Tensor) or isinstance(kv_offset, Tensor) or request.get("use_vmap"):
        return None
    if q_offset - kv_offset != n_key - n_query and _qualname(function) != "bidirectional_mask_function":
        return None
    mask = _from_function(function, kv_offset, n_key)
    padding = request.get("attention_mask")
    if mask is None or padding is None:
        return mask
    if padding.ndim != 2 or padding.shape[1] > kv_offset + n_key:
        return None
    real = torch.nn.functional.pad(padding.bool(), (0, kv_offset + n_key - padding.shape[1]))[:, kv_offset:]
    return mask & _padding(real)


def _qualname(function: Any) -> str:
    return str(getattr(function, "__qualname__", ""))


def _from_function(function: Any, kv_offset: int, n_key: int) -> Mask | None:
    """The ``Mask`` of one of transformers' mask functions, recognised by its name and what it closes over."""
    name = _qualname(function)
    if getattr(function, "__module__", "") != "transformers.masking_utils":
        return None
    closed_over = {} if function.__closure__ is None else dict(
        zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__), strict=True)
    )  # fmt: skip
    if name == "causal_mask_function":
        return masks.causal()
    if name == "bidirectional_mask_function":
        return masks.full()
    if name == "sliding_window_bidirectional_overlay.<locals>.inner_mask":
        return masks.window(closed_over["sliding_window"] + 1)
    if name == "packed_sequence_mask_function.<locals>.inner_mask" and kv_offset == 0:
        ids = closed_over["packed_sequence_mask"]
        return masks.documents(ids) if ids.shape[1] == n_key else None
    if name == "and_masks.<locals>.and_mask":
        return _intersection(closed_over["mask_functions"], kv_offset, n_key)
    return None


def _intersection(functions: tuple[Any, ...], kv_offset: int, n_key: int) -> Mask | None:
    """The ``Mask`` of several functions at once. A one-sided window is our two-sided one only beside causality."""
    together, windows = masks.full(), masks.full()
    for function in functions:
        if _qualname(function) == "sliding_window_overlay.<locals>.inner_mask":
            width = function.__closure__[0].cell_contents
            if not isinstance(width, int) or width < 1:
                return None
            windows = windows & masks.window(width)
            continue
        part = _from_function(function, kv_offset, n_key)
        if part is None:
            return None
        together = together & part
    return together & windows if windows.is_full or masks.Causal() in together.parts else None


def _padding(real: Tensor) -> Mask:
    if bool(real.all()):
        return masks.full()
    lengths = real.sum(-1)
    positions = torch.arange(real.shape[1], device=real.device)
    if bool((real == (positions >= real.shape[1] - lengths[:, None])).all()):
        return masks.padding(lengths, side="left")
    if bool((real == (positions < lengths[:, None])).all()):
        return masks.padding(lengths, side="right")
    return Mask((RealKeys(real),))


def split_mask(mask: Tensor | None, n_query: int, n_key: int) -> tuple[Mask, Tensor | None]:
    """Split the mask that the attention function is given into a ``Mask`` and a bias to add to the scores."""
    if mask is None:
        return masks.full(), None
    if isinstance(mask, LazyMask):
        if mask.shape[2:] == (n_query, n_key):
            return mask.mask, None
        mask = mask.dense()
    mask = mask[(None,) * (4 - mask.ndim)][..., :n_key]
    mask = mask.expand(*mask.shape[:2], n_query, n_key)
    if not mask.is_floating_point():
        return masks.dense(mask.bool()), None
    hidden = mask <= torch.finfo(mask.dtype).min / 2
    bias = mask.masked_fill(hidden, 0.0)
    allowed = masks.dense(~hidden) if bool(hidden.any()) else masks.full()
    return allowed, bias if bool(bias.any()) else None


@dataclass(frozen=True, eq=False)
class RealKeys(Part):
    """Padding that is neither all left nor all right: one boolean per key."""

    real: Bool[Tensor, "#batch key"]

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return self.real.to(columns.device)[:, None, None, columns].expand(-1, 1, len(rows), -1)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if self.real.shape[0] not in (1, batch) or self.real.shape[1] != n_key:
            raise MaskError(f"padding of shape {tuple(self.real.shape)} does not fit batch {batch} and {n_key} keys")

    def __repr__(self) -> str:
        return f"real_keys(<{'×'.join(map(str, self.real.shape))}>)"


@dataclass(frozen=True, eq=False)
class IndexedKeys(Part):
    """Keys that an indexer selected for each query (DeepSeek sparse attention), in blocks of ``width`` keys (MiniMax).

    ``indices`` count blocks; −1 selects nothing. Index heads are shared by groups of query heads.
    """

    indices: Int[Tensor, "batch index_head query selected"]
    n_heads: int
    width: int = 1

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        indices = self.indices.to(columns.device)[:, :, rows].long()
        blocks = columns // self.width
        last = int(blocks.max()) + 1 if len(blocks) else 0
        indices = torch.where((indices < 0) | (indices > last), last, indices)
        selected = torch.zeros(*indices.shape[:3], last + 1, dtype=torch.bool, device=columns.device)
        selected.scatter_(-1, indices, True)
        groups = self.n_heads // indices.shape[1] if indices.shape[1] > 1 else 1
        return selected[..., blocks].repeat_interleave(groups, dim=1)

    def only(self, head: int) -> IndexedKeys:
        """The keys selected for one query head."""
        at = head * self.indices.shape[1] // self.n_heads
        return IndexedKeys(self.indices[:, at : at + 1], 1, self.width)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        shape = tuple(self.indices.shape)
        if shape[0] not in (1, batch) or n_heads % shape[1] or shape[2] != n_query:
            raise MaskError(f"indices of shape {shape} do not fit batch {batch}, {n_heads} heads and {n_query} queries")

    def __repr__(self) -> str:
        return f"indexed_keys(<{'×'.join(map(str, self.indices.shape))}>, width={self.width})"
