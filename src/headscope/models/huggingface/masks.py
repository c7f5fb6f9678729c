"""Masks as transformers makes them, kept in words: causal, a window, padding, packed documents.

transformers asks a registered mask function for a tensor. Ours answers with a ``WordMask``: a tensor that holds no
cells, only our Mask. The attention function reads the words; any other operation on it gets the honest cells first,
so a family that edits its mask is served as if nothing special were there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from headscope.attention import masks
from headscope.attention.masks import Mask
from headscope.models.huggingface.sparse_masks import RealKeys


class WordMask(Tensor):
    """A mask of shape ``[batch, 1, query, key]`` that is made only when somebody looks at its cells."""

    words: Mask
    _cells: Tensor | None

    @staticmethod
    def __new__(cls, words: Mask, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> WordMask:
        made: WordMask = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        made.words, made._cells = words, None
        return made

    def cells(self) -> Tensor:
        """The mask, cell by cell: True where one may look, or 0 and the lowest number of a floating dtype."""
        if self._cells is None:
            batch, _, n_query, n_key = self.shape
            allowed = self.words.bind(batch, 1, n_query, n_key).dense(n_query, n_key, self.device)
            allowed = allowed.expand(batch, 1, n_query, n_key)
            if self.dtype != torch.bool:
                allowed = torch.where(allowed, 0.0, torch.finfo(self.dtype).min).to(self.dtype)
            self._cells = allowed
        return self._cells

    def again(self) -> WordMask:
        """The same mask as another tensor: a view may not be its own base."""
        made = WordMask(self.words, tuple(self.shape), self.dtype, self.device)
        made._cells = self._cells
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func in _UNCHANGED and _changes_nothing(func, args, kwargs or {}):
            return args[0].again()
        args, kwargs = tree_map(lambda a: a.cells() if isinstance(a, WordMask) else a, (args, kwargs or {}))
        return func(*args, **kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"WordMask({self.words!r}, {'×'.join(map(str, self.shape))})"


_aten = torch.ops.aten
_UNCHANGED = {_aten.slice.Tensor, _aten.alias.default, _aten.detach.default, _aten.expand.default}


def _changes_nothing(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether this operation would give the same mask back: many families crop a mask to the length it has."""
    mask = args[0]
    if func is _aten.slice.Tensor:
        given = list(args[1:])
        dim, start, end, step = given + [0, None, None, 1][len(given) :]
        size = mask.shape[dim]
        return not kwargs and (start or 0) == 0 and (end is None or end >= size) and step == 1
    if func is _aten.expand.default:
        return len(args[1]) == mask.ndim and all(new in (-1, old) for new, old in zip(args[1], mask.shape, strict=True))
    return True


def bool_mask(**asked: Any) -> Tensor | None:
    """Registered for sub-models that work with sdpa: True where one may look; causality is never left out."""
    from transformers.masking_utils import sdpa_mask

    return _mask(sdpa_mask, torch.bool, asked)


def float_mask(**asked: Any) -> Tensor | None:
    """Registered for sub-models that only know eager masks: 0, or the lowest number of their dtype."""
    from transformers.masking_utils import eager_mask

    return _mask(eager_mask, asked.get("dtype", torch.float32), asked)


def _mask(honest: Callable[..., Tensor | None], dtype: torch.dtype, asked: dict[str, Any]) -> Tensor | None:
    if asked.get("allow_is_bidirectional_skip") and not torch.compiler.is_compiling():
        padding, local = asked.get("attention_mask"), asked.get("local_size")
        if (padding is None or bool(padding.all())) and (local is None or asked["kv_length"] < local):
            return None
    words = None if torch.compiler.is_compiling() else in_words(asked)
    if words is None:
        return honest(**asked | {"allow_is_causal_skip": False})
    shape = (asked["batch_size"], 1, asked["q_length"], asked["kv_length"])
    return WordMask(words, shape, dtype, torch.device(asked.get("device", "cpu")))


def in_words(asked: dict[str, Any]) -> Mask | None:
    """The mask that was asked for, in our words; None where it has a part that we have no word for."""
    q_offset, kv_offset = asked.get("q_offset", 0), asked.get("kv_offset", 0)
    n_query, n_key = asked["q_length"], asked["kv_length"]
    if isinstance(q_offset, Tensor) or isinstance(kv_offset, Tensor) or asked.get("use_vmap"):
        return None
    if q_offset - kv_offset != n_key - n_query and not _position_free(asked.get("mask_function")):
        return None
    words = _read(asked.get("mask_function"), kv_offset, n_key)
    padding = asked.get("attention_mask")
    if words is None or padding is None:
        return words
    if padding.ndim != 2 or padding.shape[1] > kv_offset + n_key:
        return None
    real = torch.nn.functional.pad(padding.bool(), (0, kv_offset + n_key - padding.shape[1]))[:, kv_offset:]
    return words & _padding(real)


def _position_free(function: Any) -> bool:
    return bool(getattr(function, "__qualname__", "") == "bidirectional_mask_function")


def _read(function: Any, kv_offset: int, n_key: int) -> Mask | None:
    """What one of transformers' mask functions says, read from its name and what it closes over."""
    name = getattr(function, "__qualname__", "")
    if getattr(function, "__module__", "") != "transformers.masking_utils":
        return None
    cells = {} if function.__closure__ is None else dict(
        zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__), strict=True)
    )  # fmt: skip
    if name == "causal_mask_function":
        return masks.causal()
    if name == "bidirectional_mask_function":
        return masks.full()
    if name == "sliding_window_bidirectional_overlay.<locals>.inner_mask":
        return masks.window(cells["sliding_window"] + 1)
    if name == "packed_sequence_mask_function.<locals>.inner_mask" and kv_offset == 0:
        ids = cells["packed_sequence_mask"]
        return masks.documents(ids) if ids.shape[1] == n_key else None
    if name == "and_masks.<locals>.and_mask":
        return _read_all(cells["mask_functions"], kv_offset, n_key)
    return None


def _read_all(functions: tuple[Any, ...], kv_offset: int, n_key: int) -> Mask | None:
    """Functions that must all agree. A one-sided window is our two-sided one as soon as causality stands beside it."""
    together, windows = masks.full(), masks.full()
    for function in functions:
        if getattr(function, "__qualname__", "") == "sliding_window_overlay.<locals>.inner_mask":
            width = function.__closure__[0].cell_contents
            if not isinstance(width, int) or width < 1:
                return None
            windows = windows & masks.window(width)
            continue
        part = _read(function, kv_offset, n_key)
        if part is None:
            return None
        together = together & part
    return together & windows if windows.is_full or masks.Causal() in together.parts else None


def _padding(real: Tensor) -> Mask:
    if bool(real.all()):
        return masks.full()
    lengths = real.sum(-1)
    places = torch.arange(real.shape[1], device=real.device)
    if bool((real == (places >= real.shape[1] - lengths[:, None])).all()):
        return masks.padding(lengths, side="left")
    if bool((real == (places < lengths[:, None])).all()):
        return masks.padding(lengths, side="right")
    return Mask((RealKeys(real),))


def read_mask(mask: Tensor | None, n_query: int, n_key: int) -> tuple[Mask, Tensor | None]:
    """A mask as it arrives at the attention function: who may look, and what else it adds to the scores."""
    if mask is None:
        return masks.full(), None
    if isinstance(mask, WordMask):
        if mask.shape[2:] == (n_query, n_key):
            return mask.words, None
        mask = mask.cells()
    mask = mask[(None,) * (4 - mask.ndim)][..., :n_key]
    mask = mask.expand(*mask.shape[:2], n_query, n_key)
    if mask.dtype == torch.bool:
        return masks.dense(mask), None
    if not mask.is_floating_point():
        return masks.dense(mask.bool()), None
    hidden = mask <= torch.finfo(mask.dtype).min / 2
    rest = mask.masked_fill(hidden, 0.0)
    words = masks.dense(~hidden) if bool(hidden.any()) else masks.full()
    return words, rest if bool(rest.any()) else None
