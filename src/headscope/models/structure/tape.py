"""Record a forward pass as a graph in which the residual stream is a sum of what was written into it.

Every operation is one of five kinds. A *sum* joins what was written: additions, concatenations, scattered writes. A
*shape* operation, a product with something that does not carry the stream (a gate, a gain, a norm's scale) and a norm
carry each part on by itself, with the other factor held at its value. A matrix inside an attention module, before its
attention call, belongs to the reader and carries as well. Anything else ends what is carried: its output is written
into the stream, if it ever joins it, as a source of its own. No module is found by its name.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headscope.models.protocol import Layout

SHAPE = frozenset(
    (
        "view", "_unsafe_view", "reshape", "_reshape_alias", "t", "transpose", "permute", "expand", "slice", "select",
        "squeeze", "unsqueeze", "clone", "alias", "detach", "neg", "mean", "sum", "index", "index_select", "gather",
        "repeat", "flip", "roll", "constant_pad_nd", "split", "split_with_sizes", "unbind", "unfold", "diagonal",
        "view_as_complex", "view_as_real", "_to_copy", "lift_fresh",
    )
)  # fmt: skip  # linear in their first argument
SUM = frozenset(
    (
        "add", "sub", "rsub", "cat", "stack", "where", "index_add", "index_put", "_unsafe_index_put", "scatter_add",
        "scatter", "slice_scatter", "select_scatter", "copy", "masked_scatter", "as_strided_scatter", "index_copy",
    )
)  # fmt: skip
PRODUCT = frozenset(("mul", "div"))
MATRIX = frozenset(("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "_grouped_mm"))
NORM = frozenset(("native_layer_norm", "_fused_rms_norm"))
ARRANGE = (SHAPE - {"neg", "mean", "sum"}) | {
    "cat", "stack", "copy", "slice_scatter", "select_scatter", "as_strided_scatter", "index_put", "index_copy",
}  # fmt: skip  # numbers stay what they are, elsewhere
STARTS = frozenset(("embedding", "convolution"))
ZEROS = frozenset(("zeros", "zeros_like", "new_zeros", "zero", "empty", "empty_like", "new_empty", "new_empty_strided"))
_order = count()  # one for all tapes: what a pass takes from an earlier one was made before it


@dataclass(eq=False, repr=False)
class Node:
    """A tensor of the pass: its shape, the module that made it, and whether it was made inside a reader."""

    shape: torch.Size
    path: str
    in_site: bool
    dynamic: bool
    z: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The attention calls whose z this is, arranged, gated or normed: the first matrix of weights it meets is W_O."""


@dataclass(eq=False, repr=False)
class HeadsOutput:
    """Input and weight of a site's W_O: a source that is the sum of its heads and a bias."""

    site: str
    x: Tensor
    n_heads: int
    weight: Tensor
    bias: Tensor | None
    layout: Layout


@dataclass(eq=False, repr=False)
class SourceNode(Node):
    """A tensor that joins the stream as a whole; of a site with a known W_O, the heads' parts."""

    value: Tensor | None
    op: str
    born: int
    call: str = ""
    expert: int | None = None
    heads: HeadsOutput | None = None
    origin: Node | None = None
    """What it was computed from, where that was recorded."""


@dataclass(eq=False, repr=False)
class Slot:
    """A tensor argument: the node it carries, or the value at which it is frozen."""

    node: Node | None
    value: Tensor | None
    carried: bool
    shape: torch.Size


@dataclass(eq=False, repr=False)
class Op(Node):
    """An operation, with slots where tensors were."""

    name: str
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: int | None
    order: int
    carries: bool
    scale: Tensor | None = None
    """Of a norm: the factor at which it is held."""
    made: weakref.ref[Tensor] | None = None
    """The tensor itself, while the model holds it."""

    @property
    def slots(self) -> Iterator[Slot]:
        return _slots(self.args)

    @property
    def parents(self) -> Iterator[Node]:
        """The nodes that this one carries on."""
        return (slot.node for slot in self.slots if slot.carried and slot.node is not None)


def walk(start: Iterable[Node], onwards: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Yield these nodes and every node reached from them, each once."""
    found: dict[Node, None] = {}
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += onwards(node)
    return list(found)


def carried_into(node: Node) -> Iterable[Node]:
    """The nodes that a node carries on."""
    return node.parents if isinstance(node, Op) else ()


@dataclass(eq=False, repr=False)
class Mark:
    """What is known of a tensor: its node, or, where nothing is carried, which operation made it."""

    node: Node | None
    carried: bool
    dynamic: bool
    op: str
    path: str
    in_site: bool
    born: int
    expert: int | None = None
    starts: bool = False
    """Whether it begins a stream: embeddings, patches, and floating-point inputs."""


def _z_of(plan: _Plan, held: bool) -> frozenset[str]:
    """The calls whose z this still is; none where it was added to something else that depends on the text.

    With ``held``, also where something acted on it that carries nothing on.
    """
    slots = [slot for slot in _slots(plan.slots) if slot.carried or (held and not plan.carries)]
    nodes = [slot.node for slot in slots if slot.node is not None]
    alone = all(node.z for node in nodes if node.dynamic)
    return frozenset().union(*(node.z for node in nodes)) if alone or plan.name in ARRANGE else frozenset()


def _slots(args: Any) -> Iterator[Slot]:
    for arg in args:
        if isinstance(arg, Slot):
            yield arg
        elif isinstance(arg, (tuple, list)):
            yield from _slots(arg)


@dataclass(eq=False, repr=False)
class _Plan:
    """What will be recorded of an operation once it has run."""

    name: str
    func: Any
    slots: tuple[Any, ...]
    dynamic: bool
    carries: bool
    in_site: bool


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records while it is the current mode. ``stack`` holds module paths, ``sites`` open attention modules.

    With ``only_z``, no stream is recorded, only where every z goes.
    """

    def __init__(self, only_z: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.only_z = only_z
        self.stack: list[str] = []
        self.sites: list[str | None] = []
        self.order = next(_order)
        self.joins: dict[torch.Size, Node] = {}
        """The latest sum of every shape outside readers: of the stream's shape, its end."""
        self.reads: list[tuple[str, Node]] = []
        """What matrices outside readers read of the stream, with their paths."""
        self.call = ""
        """The site that attended last."""
        self._sources: dict[int, list[weakref.ref[SourceNode]]] = {}

    @property
    def path(self) -> str:
        return self.stack[-1] if self.stack else ""

    @property
    def in_site(self) -> bool:
        """Whether an attention module is open whose attention call has not been made yet."""
        return any(site is not None for site in self.sites)

    def mark_input(self, value: Tensor) -> None:
        value._headscope = Mark(None, False, True, "input", "", False, 0, starts=_is_number(value) and not self.only_z)  # type: ignore[attr-defined]

    def mark_source(self, value: Tensor, op: str, heads: HeadsOutput | None = None) -> None:
        """Mark a tensor that starts something new: z, or W_O's output with its heads."""
        node = None
        if heads is not None:
            node = SourceNode(value.shape, self.path, False, True, None, op, self.order, self.call, heads=heads)
        value._headscope = Mark(node, node is not None, True, op, self.path, False, self.order)  # type: ignore[attr-defined]

    def mark_z(self, value: Tensor, call: str) -> SourceNode:
        """Mark z of an attention call, so that it is carried to its W_O."""
        where = (value.shape, self.path, False, True)
        node = SourceNode(*where, value, "attention", self.order, self.call, z=frozenset((call,)))
        value._headscope = Mark(node, True, True, "attention", self.path, False, self.order)  # type: ignore[attr-defined]
        return node

    def z_in(self, value: Tensor) -> Node | None:
        """The node of a tensor that is z, arranged, gated, normed, or changed."""
        mark = mark_of(value)
        return mark.node if mark is not None and mark.node is not None and mark.node.z else None

    def node_of(self, value: Tensor) -> Node | None:
        """The node that a tensor carries, if it does."""
        mark = mark_of(value)
        return mark.node if mark is not None and mark.carried else None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        if func._schema.is_mutable and args and isinstance(args[0], Tensor):
            return self._change(name, func, args, kwargs)
        out = func(*args, **kwargs)
        self._finish(self._plan(name, func, args), kwargs, out)
        return out

    def _change(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Record an operation in place as one that makes a new tensor; a changed view is written into its base."""
        target, base = args[0], args[0]._base
        pure = getattr(getattr(torch.ops.aten, name.rstrip("_"), None), func._overloadname, None)
        plan = self._plan(name.rstrip("_"), pure, args)
        whole = None if base is None or not _is_number(base) else self._slot(base, {id(base)})
        for ref in self._sources.pop(memory_of(target), []):
            found = ref()
            if found is not None and found.value is not None:
                found.value = found.value.clone()  # sources that share this memory keep what they were
        out = func(*args, **kwargs)
        self._finish(plan, kwargs, out)
        mark = mark_of(target)
        if whole is not None and mark is not None and base is not None:
            part = self._slot(target, {id(target)})
            place = (list(target.shape), list(target.stride()), target.storage_offset())
            scatter = torch.ops.aten.as_strided_scatter.default
            self._finish(
                _Plan("as_strided_scatter", scatter, (whole, part, *place), mark.dynamic, True, self.in_site), {}, base
            )
        return out

    def _plan(self, name: str, func: Any, args: Any) -> _Plan | Mark:
        """Before an operation: its slots, or, where it carries nothing on and reads no node, the mark of its output."""
        if name in ZEROS:
            return Mark(None, False, False, "zeros", self.path, self.in_site, self.order)
        tensors = [(each, mark_of(each)) for each in _tensors(args)]
        dynamic = any(mark is not None and mark.dynamic for _, mark in tensors)
        floats = [pair for pair in tensors if _is_number(pair[0])]
        known = any(mark is not None and (mark.node is not None or mark.starts) for _, mark in floats)
        joins = (name in SUM and dynamic and len(floats) > 1) or (name in MATRIX and self.in_site and dynamic)
        joins = joins and not self.only_z
        if func is None or name in STARTS or not (known or joins):
            return self._leaf(name, args, floats, dynamic)
        carried = self._carried(name, args, floats)
        if name in MATRIX and not carried and not (self.only_z and name in ("bmm", "baddbmm")):
            nodes = (mark.node for _, mark in floats if mark is not None and mark.carried and mark.node is not None)
            self.reads += [(self.path, node) for node in nodes if not self.only_z]
            return self._leaf(name, args, floats, dynamic)
        given = (None, *args[1:]) if name == "copy" else args
        slots = tuple(self._slot(arg, carried) for arg in given)
        inherits = name in SHAPE and not carried and bool(floats)
        inside = floats[0][1].in_site if inherits and floats[0][1] is not None else self.in_site
        return _Plan(name, *_affine(name, func, slots, self), dynamic, bool(carried), inside)

    def _finish(self, plan: _Plan | Mark, kwargs: Any, out: Any) -> None:
        """After an operation: give each output its node and mark."""
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        for place, made in enumerate(outs):
            if not isinstance(made, Tensor):
                continue
            if isinstance(plan, Mark):
                made._headscope = plan  # type: ignore[attr-defined]
                continue
            carries = plan.carries and _is_number(made) and not (plan.name in NORM and place > 0)
            self.order = next(_order)
            node = Op(
                made.shape, self.path, self.in_site, plan.dynamic, plan.name, plan.func, plan.slots, kwargs,
                place if isinstance(out, (tuple, list)) else None, self.order, carries,
                outs[-1] if plan.name in NORM and carries else None, z=_z_of(plan, self.only_z),
            )  # fmt: skip
            mark = Mark(node, carries, plan.dynamic, plan.name, self.path, plan.in_site, self.order)
            node.made = weakref.ref(made)
            if carries and plan.name == "add" and not self.in_site and len(list(node.parents)) > 1:
                self.joins[made.shape] = node
            made._headscope = mark  # type: ignore[attr-defined]

    def _leaf(self, name: str, args: Any, floats: list[Any], dynamic: bool) -> Mark:
        """Mark what carries nothing; shape operations and products hand on where their input came from."""
        origin = max((pair for pair in floats if pair[1] is not None), key=lambda pair: pair[0].numel(), default=None)
        if origin is not None and (name in SHAPE or name in PRODUCT or name in NORM):
            mark = origin[1]
            expert = None if dynamic else _selected(name, args)
            expert = mark.expert if expert is None else expert
            return Mark(None, False, dynamic, mark.op, mark.path, mark.in_site, mark.born, expert)
        expert = _selected(name, args) if not dynamic else None
        if name in MATRIX:
            expert = next((mark.expert for _, mark in floats if mark is not None and mark.expert is not None), None)
        starts = dynamic and name in STARTS and not self.in_site and not self.only_z
        return Mark(None, False, dynamic, name, self.path, self.in_site, self.order, expert, starts)

    def _carried(self, name: str, args: Any, floats: list[Any]) -> set[int]:
        """The ids of the tensor arguments that this operation carries on; empty if it carries none."""
        streams = {id(each) for each, mark in floats if mark is not None and (mark.carried or mark.starts)}
        if name in SUM and name != "copy":
            several = len(floats) > 1
            dynamic = any(mark is not None and mark.dynamic for _, mark in floats)
            return {id(each) for each, _ in floats} if (several and dynamic) or streams else set()
        if name in MATRIX:
            return self._matrix(name, args, floats, streams)
        if name == "copy":
            return {id(args[1])}
        if not streams:
            return set()
        if name in SHAPE:
            return {id(args[0])} & streams
        if name in PRODUCT:
            if name == "div" and id(args[0]) not in streams:
                return set()
            return streams if sum(id(each) in streams for each, _ in floats) == 1 else set()
        if name in NORM:
            bias = args[3:4] if name == "native_layer_norm" else ()
            return {id(each) for each in (args[0], *bias)} if id(args[0]) in streams else set()
        if name == "masked_fill" and not isinstance(args[2], Tensor) and args[2] == 0:
            return {id(args[0])} & streams
        return set()

    def _matrix(self, name: str, args: Any, floats: list[Any], streams: set[int]) -> set[int]:
        """A product with a matrix: the reader's own, or with coefficients that were computed, which are held."""
        factors = args[1:3] if name in ("addmm", "baddbmm", "addmv") else args[:2]
        inner = [each for each in factors if id(each) in streams]
        if not inner and self.in_site:  # what enters a reader was written, however it was made
            inner = [
                each for each in factors if (mark := mark_of(each)) is not None and mark.dynamic and not mark.in_site
            ]
        if len(inner) != 1:
            return set()
        other = next((each for each in factors if each is not inner[0]), None)
        mark = None if other is None else mark_of(other)
        computed = mark is not None and mark.dynamic
        if not self.in_site and not computed:
            return set()
        added = [args[0]] if name in ("addmm", "baddbmm", "addmv") else []
        return {id(inner[0]), *(id(each) for each in added)}

    def _slot(self, arg: Any, carried: set[int]) -> Any:
        if isinstance(arg, (tuple, list)):
            return type(arg)(self._slot(each, carried) for each in arg)
        if not isinstance(arg, Tensor):
            return arg
        mark = mark_of(arg)
        node = None if mark is None else mark.node
        if id(arg) not in carried:  # a value is kept where it is held, or where nothing says how to compute it
            return Slot(node, arg if carried or node is None else None, False, arg.shape)
        if node is None or not (mark is not None and mark.carried):
            if mark is not None and not mark.dynamic and mark.op == "zeros":
                return Slot(None, None, True, arg.shape)
            node = self._source(arg, mark, node)
        return Slot(node, None, True, arg.shape)

    def _source(self, value: Tensor, mark: Mark | None, origin: Node | None) -> SourceNode:
        """Wrap a tensor that joins the stream; the same tensor gives the same source while anything holds it."""
        held = self._sources.setdefault(memory_of(value), [])
        held[:] = [ref for ref in held if ref() is not None]
        for ref in held:
            found = ref()
            if found is not None and found.value is value:
                return found
        if mark is None:
            mark = Mark(None, False, False, "parameter", self.path, self.in_site, self.order)
        where = (value.shape, mark.path, mark.in_site, mark.dynamic)
        made = SourceNode(*where, value, mark.op, mark.born, self.call, mark.expert, origin=origin)
        held.append(weakref.ref(made))
        return made


def mark_of(value: Tensor) -> Mark | None:
    return getattr(value, "_headscope", None)


def memory_of(value: Tensor) -> int:
    try:
        return value.untyped_storage().data_ptr()
    except RuntimeError:  # a tensor without memory
        return id(value)


def _is_number(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _tensors(args: Any) -> Iterator[Tensor]:
    for arg in args:
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, (tuple, list)):
            yield from _tensors(arg)


def _selected(name: str, args: Any) -> int | None:
    """Which matrix of a stack was selected: an expert."""
    if name == "select" and args[0].ndim == 3 and args[1] == 0:
        return int(args[2])
    if name == "index" and args[0].ndim == 3 and len(args[1]) == 1 and args[1][0] is not None and args[1][0].ndim == 0:
        return int(args[1][0])
    return None


def _affine(name: str, func: Any, slots: tuple[Any, ...], tape: Tape) -> tuple[Any, tuple[Any, ...]]:
    """A number that is added becomes a slot like a tensor."""
    if name not in ("add", "sub", "rsub") or len(slots) < 2 or isinstance(slots[1], Slot):
        return func, slots
    carried = isinstance(slots[0], Slot) and slots[0].carried
    number = torch.tensor(float(slots[1]))
    source = SourceNode(number.shape, tape.path, tape.in_site, False, number, "number", tape.order) if carried else None
    slot = Slot(source, None if carried else number, carried, number.shape)
    tensors = getattr(torch.ops.aten, name).Tensor
    return lambda one, other, alpha=1: tensors(one, other, alpha=alpha), (slots[0], slot, *slots[2:])
