"""Detect every attention computation of any PyTorch module, by a ``TorchFunctionMode`` with two branches.

(a) ``scaled_dot_product_attention``, ``multi_head_attention_forward`` and flex attention: q, k, v and the mask are
arguments, and nothing of queries × keys is made. (b) Eager code: a softmax, then (dropout, casts, views) a product with
something that is no parameter. That product is z, and its other factor is the pattern.
"""

from __future__ import annotations

import inspect
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from headscope.models.any_torch.axes import einsum_as_matmul, operands

# multi_head_attention_forward hands itself to a mode as a whole; a copy that asks for no mode hands over its parts.
_whole: Any = F.multi_head_attention_forward
_parts = types.FunctionType(
    _whole.__code__, {**F.__dict__, "has_torch_function": lambda _: False}, "parts", _whole.__defaults__
)
_parts.__kwdefaults__ = _whole.__kwdefaults__
_signature = inspect.signature(_whole)


class LazyWeights(Tensor):
    """Attention weights that are computed when they are first used."""

    compute: Callable[[], Tensor]

    @staticmethod
    def __new__(cls, compute: Callable[[], Tensor], shape: tuple[int, ...], like: Tensor) -> LazyWeights:
        made: LazyWeights = Tensor._make_wrapper_subclass(cls, shape, dtype=like.dtype, device=like.device)
        made.compute = compute
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        args, kwargs = tree_map(lambda a: a.compute() if isinstance(a, LazyWeights) else a, (args, kwargs or {}))
        return func(*args, **kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"LazyWeights({'×'.join(map(str, self.shape))})"


def multihead_parts(args: Any, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    """The output of multi-head attention, and its weights where they are asked for, computed on first use.

    ``nn.MultiheadAttention`` asks for its weights unless it is told not to, and most callers drop them. So it runs
    without, and nothing of queries × keys is made.
    """
    given = _signature.bind(*args, **kwargs)
    given.apply_defaults()
    if not given.arguments["need_weights"]:
        return _parts(*args, **kwargs)  # type: ignore[no-any-return]
    output, _ = _parts(**{**given.arguments, "need_weights": False})

    def compute() -> Tensor:
        with torch._C.DisableTorchFunction():
            weights: Tensor = _whole(**given.arguments)[1]
        return weights

    return output, LazyWeights(compute, _weights_shape(given.arguments), output)


def _weights_shape(given: dict[str, Any]) -> tuple[int, ...]:
    query, keys = given["query"], given["key"].shape[0] + (given["bias_k"] is not None) + given["add_zero_attn"]
    heads = () if given["average_attn_weights"] else (given["num_heads"],)
    batch = () if query.ndim == 2 else (query.shape[1],)
    return (*batch, *heads, query.shape[0], keys)


PRODUCTS = frozenset({"matmul", "__matmul__", "__rmatmul__", "bmm", "baddbmm"})
MATRICES = frozenset({"linear", "addmm", "conv1d", "conv2d"})
MOST_PRODUCTS = 8
"""Products of two activations that are kept to find q and k among."""

# Functions that hand the weights on as they are, in another shape or precision.
UNCHANGED = frozenset(
    {
        *("view", "reshape", "flatten", "unflatten", "permute", "transpose", "swapaxes", "movedim", "squeeze"),
        *("unsqueeze", "expand", "contiguous", "clone", "detach", "__get__"),
        *("to", "type", "type_as", "float", "half", "bfloat16", "double"),
    }
)


class ScoreProduct(NamedTuple):
    """A product of two activations before a softmax: q·kᵀ, perhaps. ``leaf`` is its result in a pass with gradients."""

    a: Tensor
    b: Tensor
    leaf: Tensor | None


@dataclass
class Softmax:
    """A softmax over keys: its input, and the products that were made before it."""

    scores: Tensor
    products: tuple[ScoreProduct, ...]


@dataclass
class FoundCall:
    """One attention computation. All tensors are ``[lead…, query or key, d]``."""

    module: nn.Module
    site: str
    lead: tuple[int, ...]
    n_query: int
    v: Tensor
    own: Callable[[], Tensor]
    """Computes z as the model itself does."""
    q: Tensor | None = None
    k: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    dropout: float = 0.0
    flex: tuple[Any, Any] | None = None
    """``score_mod`` and ``mask_mod`` of flex attention."""
    weights: Tensor | None = None
    """The pattern that eager code made."""
    changed: bool = False
    """Whether something acted on the pattern after its softmax."""
    softmax: Softmax | None = None

    @property
    def eager(self) -> bool:
        return self.weights is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of z."""
        return (*self.lead, self.n_query, self.v.shape[-1])


@dataclass(frozen=True)
class MatrixUse:
    """One product with a weight matrix: its number in the pass, and the call itself."""

    index: int
    name: str
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    of_scores: bool
    """Whether its input has as many cells as a product of activations: heads may be mixed before the softmax."""


Visit = Callable[[FoundCall], Tensor]
OnMatrix = Callable[[MatrixUse], Tensor | None]


@dataclass
class _Tracked:
    """A tensor made from a softmax; it is kept so that its id stays its own."""

    tensor: Tensor
    softmax: Softmax
    changed: bool


@dataclass(frozen=True)
class ModelParts:
    """The modules of a model by identity, and the storages of its parameters."""

    paths: dict[int, str]
    storages: frozenset[int] = field(repr=False)

    @classmethod
    def of(cls, model: nn.Module) -> ModelParts:
        weights = [*model.parameters(), *model.buffers()]
        return cls({id(part): path for path, part in model.named_modules()}, frozenset(map(_storage, weights)))

    def is_weight(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter or a view of one."""
        return isinstance(tensor, nn.Parameter) or _storage(tensor) in self.storages


def _storage(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except (NotImplementedError, RuntimeError):  # quantised and sparse tensors
        return id(tensor)


class AttentionMode(TorchFunctionMode):
    """Pass every attention computation to ``visit``, which returns z; ``on_matrix`` sees products with weights.

    With ``cut``, products of activations become leaves, so that gradients of the scores reach them.
    """

    def __init__(
        self,
        parts: ModelParts,
        visit: Visit,
        on_matrix: OnMatrix | None = None,
        *,
        cut: bool = False,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """``names`` are of sites, by the path of the module that attends."""
        super().__init__()
        self.parts, self.visit, self.on_matrix, self.cut, self.names = parts, visit, on_matrix, cut, names or {}
        self.stack: list[nn.Module] = []
        self.start()

    def start(self) -> None:
        """Begin a pass: calls of each module are counted from one."""
        self.times: Counter[str] = Counter()
        self.n_matrices = 0
        self._tracked: dict[int, _Tracked] = {}
        self._products: list[ScoreProduct] = []
        self._scores: dict[int, Tensor] = {}  # with ``cut``: products, and what was made of them cell by cell
        self.unsoftened: set[str] = set()
        """Modules that multiply such a tensor by a third, as attention does, with no softmax in between."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            return self._sdpa(*args, **kwargs)
        if name == "multi_head_attention_forward":
            with self:
                return multihead_parts(args, kwargs)
        if name == "flex_attention" and len(args) > 5 and isinstance(args[4], tuple):
            return self._flex(*args[:6])
        if name == "einsum":
            with self:
                made = einsum_as_matmul(args, self.parts.is_weight)
            if made is not None:
                return made
        if name == "softmax" or name == "_softmax":
            return self._softmax(func, args, kwargs)
        if name in MATRICES:
            return self._matrix(name, func, args, kwargs)
        if name in PRODUCTS:
            found = self._product(name, func, args, kwargs)
            if found is not None:
                return found
        out = func(*args, **kwargs)
        if self._tracked:
            self._track(name, args, kwargs, out)
        like_scores = (id(item) in self._scores and item.numel() == out.numel() for item in args)
        if self._scores and isinstance(out, Tensor) and any(like_scores):
            self._scores[id(out)] = out
        return out

    def _site(self) -> tuple[nn.Module | None, str]:
        module = self.stack[-1] if self.stack else None
        path = self.parts.paths.get(id(module), "") or type(module).__name__
        self.times[path] += 1
        name = self.names.get(path, path)
        return module, name if self.times[path] == 1 else f"{name}@{self.times[path]}"

    def _answer(self, **found: Any) -> Tensor:
        module, site = self._site()
        return self.visit(FoundCall(module=module or nn.Identity(), site=site, **found))

    def _sdpa(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        own = partial(
            F.scaled_dot_product_attention, query, key, value, attn_mask, dropout_p, is_causal,
            scale=scale, enable_gqa=enable_gqa,
        )  # fmt: skip
        leads = [query.shape[:-2]] if enable_gqa else [t.shape[:-2] for t in (query, key, value)]
        return self._answer(
            lead=_broadcast(*leads), n_query=query.shape[-2], v=value, own=own, q=query, k=key,
            mask=attn_mask, causal=is_causal, scale=scale, dropout=dropout_p,
        )  # fmt: skip

    def _flex(self, q: Tensor, k: Tensor, v: Tensor, score_mod: Any, block_mask: Any, scale: float) -> Any:
        """The operator inside flex attention returns z, the log-sum-exp and the row maxima."""
        from headscope.models.any_torch.calls import flex_reference

        z = self._answer(
            lead=tuple(q.shape[:-2]), n_query=q.shape[-2], v=v, q=q, k=k, scale=scale, flex=(score_mod, block_mask[-1]),
            own=partial(flex_reference, q, k, v, score_mod, block_mask[-1], scale),
        )  # fmt: skip
        rows = q.new_zeros(q.shape[:-1])
        return z, rows, rows

    def _softmax(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.ndim >= 2 and out.shape[-1] > 0:
            scores = args[0] if args else kwargs["input"]
            self._tracked[id(out)] = _Tracked(out, Softmax(scores, tuple(self._products)), False)
        return out

    def _track(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        """Follow the weights through functions whose result has at least half as many cells."""
        if not isinstance(out, Tensor) or not out.is_floating_point() or out.ndim < 2:
            return
        for item in (*args, *kwargs.values()):
            found = self._tracked.get(id(item)) if isinstance(item, Tensor) else None
            if found is None or out.numel() < found.tensor.numel() // 2:
                continue
            same = name in UNCHANGED or (name == "dropout" and not _drops(args, kwargs))
            changed = found.changed or not same or out.numel() != found.tensor.numel()
            self._tracked[id(out)] = _Tracked(out, found.softmax, changed)
            return

    def _matrix(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        out = None
        if self.on_matrix is not None:
            sizes = {product.leaf.numel() for product in self._products if product.leaf is not None}
            of_scores = any(isinstance(given, Tensor) and given.numel() in sizes for given in args)
            out = self.on_matrix(MatrixUse(self.n_matrices, name, func, args, kwargs, of_scores))
        self.n_matrices += 1
        out = func(*args, **kwargs) if out is None else out
        if self._tracked:
            self._track(name, args, kwargs, out)
        return out

    def _product(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A product that is z, or with a weight, or of two activations; None for anything else."""
        found = operands(name, args, kwargs)
        if found is None:
            return None
        a, b = found
        if self.parts.is_weight(a) or self.parts.is_weight(b):
            return self._matrix(name, func, args, kwargs)
        held = [self._tracked.get(id(t)) for t in (a, b)]
        if (held[0] is None) == (held[1] is None) or name == "baddbmm":
            if any(id(t) in self._scores for t in args):
                self.unsoftened.add(self.parts.paths.get(id(self.stack[-1]), "") if self.stack else "")
            return self._score_product(func(*args, **kwargs), a, b)
        if held[0] is not None:
            return self._weighted_sum(a, b, held[0], partial(func, *args, **kwargs)).contiguous()
        assert held[1] is not None
        return self._weighted_sum(b.mT, a.mT, held[1], lambda: func(*args, **kwargs).mT).mT.contiguous()

    def _weighted_sum(self, weights: Tensor, values: Tensor, tracked: _Tracked, own: Callable[[], Tensor]) -> Tensor:
        # What else comes from this softmax is not attention again, unless it was handed on (a second product).
        self._tracked = {
            key: one for key, one in self._tracked.items() if one.softmax is not tracked.softmax or one is tracked
        }
        return self._answer(
            lead=_broadcast(weights.shape[:-2], values.shape[:-2]), n_query=weights.shape[-2], v=values, own=own,
            weights=weights, changed=tracked.changed, softmax=tracked.softmax,
        )  # fmt: skip

    def _score_product(self, out: Tensor, a: Tensor, b: Tensor) -> Tensor:
        if not out.is_floating_point() or a.ndim < 3:
            return out
        leaf = None
        if self.cut and torch.is_grad_enabled():
            leaf = out.detach().requires_grad_()
            out = leaf * 1
            self._scores[id(out)] = out
        self._products = [*self._products[1 - MOST_PRODUCTS :], ScoreProduct(a, b, leaf)]
        return out


def _drops(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a dropout drops anything: its probability and its mode are its second and third argument."""
    p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    training = args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True))
    return bool(p) and bool(training)


def _broadcast(*shapes: torch.Size) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
