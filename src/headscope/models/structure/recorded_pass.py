"""Ask a recorded pass: the residual stream around a site, what was written into it, and a logit as a sum of that.

Norms, gates and patterns are held at this pass's values wherever a sum is split.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import plain
from headscope.errors import ModelError
from headscope.models.modes import own_precision
from headscope.models.protocol import SiteObserver
from headscope.models.structure.carry import Route, part_of, source_device
from headscope.models.structure.points import Answers, Metric, Point, gradients_at, metric_of, values_at
from headscope.models.structure.readers import before_norm, carried_part, has_own_norm, probed, reader_inputs, value_of
from headscope.models.structure.recorder import RecordedStream, Writer, ancestors, record_stream
from headscope.models.structure.tape import SHAPE, HeadsOutput, Node, Op, SourceNode, memory_of
from headscope.models.structure.unembedding import through_frozen_norm

NOT_A_SUM = (
    "what W_O writes does not reach the end of the residual stream by addition alone (a norm or a gate acts on it)"
)
NOT_ADDED = "what W_O writes is not added to the residual stream that predictions are read from"
NO_END = "the end of its residual stream was not found"
Stream = Float[Tensor, "query d_model"]


class RecordedPass:
    """One forward pass of one text as a graph. The stream is the sum of what was written into it."""

    def __init__(
        self,
        model: Any,
        inputs: Mapping[str, Tensor],
        observer: SiteObserver | None = None,
        until: Collection[str] = (),
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``observer`` and ``within`` are what the pass runs under: edits in force."""
        self.model, self.inputs, self._within = model, inputs, within
        self._observer: SiteObserver = observer or (lambda _, call: plain(call))
        with within():
            self.stream: RecordedStream = record_stream(model, inputs, observer, until)

    def __repr__(self) -> str:
        kept = ", ".join(f"{name} {tuple(each.shape)}" for name, each in self.inputs.items())
        return f"RecordedPass(of {self.model.shape.name}: {kept})"

    @cached_property
    def nbytes(self) -> int:
        """Bytes that the pass keeps in addition to the model's weights."""
        held: dict[int, int] = {}
        for node in ancestors(self.stream.ends()):
            if isinstance(node, SourceNode):
                tensors = [node.value, None if node.heads is None else node.heads.x]
            else:
                tensors = [slot.value for slot in node.slots] if isinstance(node, Op) else []
            held |= {memory_of(each): each.numel() * each.element_size() for each in tensors if each is not None}
        kept = [*self.stream.read_by_w_o.values(), self.stream.final_value]
        held |= {memory_of(each): each.numel() * each.element_size() for each in kept if each is not None}
        weights = map(memory_of, self.model.model.parameters())
        return sum(held.values()) - sum(held.get(place, 0) for place in set(weights))

    @own_precision()
    def value(self, at: str | Point) -> Tensor:
        """The value at a point, ``[query, …]``, such as ``"mlp_out 3"``; ``"z 3"`` of all heads, ``"z 3.1"`` of one."""
        point = Point.parse(at)
        if point.kind in ("q_input", "k_input", "v_input"):
            return _rows(self._read_by(point))
        if point.kind == "scores":
            raise ModelError(f"{str(point)!r}: scores are not kept; look.pattern() shows what softmax makes of them")
        if point.kind in ("resid_mid", "mlp_in"):
            site = self._site_of(point)
            return self._resid_mid(site) if point.kind == "resid_mid" else self._mlp_in(site, point)
        at_site, head = self._at_site(point)
        with self._within():
            return values_at(self.model, self.inputs, [at_site], self._observer)[at_site][0][:, head]

    @own_precision()
    def gradient(self, metric: Metric | Answers, at: Sequence[str | Point]) -> dict[str, Tensor]:
        """The derivative of a metric with respect to the value at each point, from one backward pass.

        ``metric``: a right and a wrong next token, or a function of logits ``[query, vocabulary]``.
        """
        places = {str(each): self._at_site(Point.parse(each)) for each in at}
        points, measured = list(dict.fromkeys(point for point, _ in places.values())), metric_of(self.model, metric)
        with self._within():
            found = gradients_at(self.model, self.inputs, measured, points, self._observer)
        return {name: found[point][0][:, head] for name, (point, head) in places.items()}

    def _at_site(self, point: Point) -> tuple[Point, int | slice]:
        """The site's point for z of one head, and which head."""
        if point.kind != "z" or point.where in self.model.shape.sites:
            return point, slice(None)
        head = self.model.shape.find(point.where)
        return Point("z", head.site), head.head

    def part(self, writer: str, at: str | Point | None = None) -> Stream:
        """Return what is left of one component's output at the end of the stream, or at a reader: ``at="k_input 5.6"``.

        A component is a head (``"4.3"``), ``"mlp 3"``, ``"embedding"`` or a bias; ``parts`` has all of them.
        """
        found = self.parts(at, [writer])
        if not found:
            names = ", ".join(each.name for each in self.stream.writers(Route(self._node(at))))
            raise ModelError(f"{writer} does not write into the stream {at or 'at its end'}; {names} do")
        return found[writer]

    @own_precision()
    def parts(self, at: str | Point | None = None, only: Collection[str] = ()) -> dict[str, Stream]:
        """Return every component's part there; the parts add up to the stream. Norms on the way are frozen."""
        node = self._node(at)
        writers = self.stream.writers(Route(node))
        return {each.name: carried_part(each, node)[0] for each in writers if not only or each.name in only}

    def _resid_pre(self, site: str) -> Stream:
        """The residual stream that a site reads, before its norm."""
        reads = self.stream.sites[site].nodes
        side = next((side for side in reads), "q")
        return _rows(reader_inputs(self.stream.node(site, side), has_own_norm(self.model, site, side))[0])

    def _resid_mid(self, site: str) -> Stream:
        """The residual stream once a site has written into it: what the MLP of its layer reads, where that is later."""
        for read in self._mlp_reads(site):
            held = {source.heads.site for source in Route(read).sources if source.heads is not None}
            if site in held and not held & set(self._later(site)):
                return _rows(read if read in ancestors(self.stream.ends()) else before_norm(read))
        before = self._resid_pre(site)
        return before + self._added(site, lambda source: self._wrote(source, site)).to(before)

    @own_precision()
    def attribution(self, token: str | int, minus: str | int | None = None, position: int = -1) -> dict[str, float]:
        """Split the logit of a token, less that of ``minus`` if there is one, over everything that was written."""
        tokens = [self.model.processor.token_id(each) for each in (token, minus) if each is not None]
        direction, route = logit_direction(self.model, self.final(position), tokens), Route(self._node(None))
        writers = self.stream.writers(route)
        gradients = reading_gradients(route, lambda whole: whole[0, position] @ direction.to(whole))
        return {writer.name: writer_share(writer, gradients) for writer in writers}

    def final(self, position: int) -> Float[Tensor, " d_model"]:
        """The end of the stream at one position."""
        if self.stream.final is None or self.stream.final_value is None:
            raise ModelError(f"{self.model.shape.name}: {NO_END}, so no logit can be split over what was written")
        return self.stream.final_value[0, position]

    def _node(self, at: str | Point | None) -> Node:
        """The end of the stream, or what a head or layer reads of it."""
        point = None if at is None else Point.parse(at)
        if point is None:
            if self.stream.final is None:
                raise ModelError(f"{self.model.shape.name}: {NO_END}; say where, as in at='k_input 1.0'")
            return self.stream.final
        if point.kind not in ("q_input", "k_input", "v_input"):
            raise ModelError(f"{str(point)!r}: components are split in what a head reads, as in 'k_input 1.0'")
        return self._read_by(point)

    def _read_by(self, point: Point) -> Node:
        head, side = self.model.shape.find(point.where), point.kind[0]
        return reader_inputs(self.stream.node(head.site, side), has_own_norm(self.model, head.site, side))[0]

    def _site_of(self, point: Point) -> str:
        """The last site of a layer, or the site itself."""
        own = [site for site in self.stream.sites if site.removesuffix(".cross") == point.where]
        if point.where not in self.stream.sites and not own:
            raise ModelError(
                f"{str(point)!r}: there is no such layer or site; there are {', '.join(self.stream.sites)}"
            )
        return own[-1] if own else point.where

    def _mlp_in(self, site: str, point: Point) -> Stream:
        reads = self._mlp_reads(site)
        if not reads:
            raise ModelError(f"{str(point)!r}: no matrix of this layer apart from attention reads the stream")
        return _rows(reads[0] if reads[0] in ancestors(self.stream.ends()) else before_norm(reads[0]))

    def _later(self, site: str) -> list[str]:
        sites = list(self.stream.sites)
        return sites[sites.index(site) + 1 :]

    def _wrote(self, source: SourceNode, site: str) -> bool:
        """Whether a site wrote this: its heads, or its output as a whole."""
        if source.heads is not None:
            return source.heads.site == site
        path = self.stream.site_paths[site]
        return source.dynamic and source.call == site and (source.path + ".").startswith(path + ".")

    def _mlp_reads(self, site: str) -> list[Node]:
        """Return what matrices of the site's layer other than those of attention read of the stream."""
        layer = site.partition("@")[0].removesuffix(".cross")
        inside = tuple(f"{path}." for path, name in self.stream.layers.items() if name == layer)
        own = tuple(f"{path}." for path in self.stream.site_paths.values())
        found = [(path + ".", node) for path, node in self.stream.tape.reads]
        return [_unshaped(node) for path, node in found if path.startswith(inside) and not path.startswith(own)]

    def _added(self, site: str, mine: Callable[[SourceNode], bool]) -> Stream:
        """What some sources have become where they first join something else that was written."""
        for end in self.stream.ends():
            route = Route(end)
            wanted = {source for source in route.sources if mine(source)}
            holds: dict[Node, set[SourceNode]] = {source: {source} for source in route.sources}
            for op in route.ops if wanted else ():
                held = holds[op] = set().union(*(holds.get(parent, set()) for parent in op.parents))
                others = any(source.dynamic and source not in wanted for source in held)
                if op.name == "add" and not op.in_site and wanted <= held and others:
                    writers = self.stream.writers(Route(op))
                    parts = [carried_part(w, op) for w in writers if any(source in wanted for source, _ in w.sources)]
                    return sum(parts[1:], parts[0]).reshape(-1, op.shape[-1])
        raise ModelError(f"{site}: what it adds to the residual stream was not found: it is not simply added")


def _rows(node: Node) -> Stream:
    return value_of(node).detach().reshape(-1, node.shape[-1])


def _unshaped(node: Node) -> Node:
    """The stream that a matrix reads, without the reshaping before the product."""
    while isinstance(node, Op) and node.name in SHAPE:
        node = next(node.parents)
    return node


@torch.no_grad()
def stream_factor(model: Any, site: str) -> float:
    """Return the factor with which a site's heads reach the end of the stream; raise an error if it is not one."""
    end = probed(model).final
    route = None if end is None else Route(end)
    mine = [each for each in route.sources if each.heads is not None and each.heads.site == site] if route else []
    if route is None or not mine:
        raise ModelError(f"{site}: {NO_END if route is None else NOT_ADDED}, so a logit cannot be split over its heads")
    written = torch.randn(mine[0].shape, generator=torch.Generator().manual_seed(0)).to(source_device(mine[0]))
    arrived = route.carry(mine[0], written)
    assert arrived is not None
    arrived = arrived.reshape(-1) if arrived.numel() == written.numel() else torch.zeros(written.numel())
    factor = float(arrived @ written.reshape(-1) / written.square().sum())
    if (
        not abs(factor) > 1e-9
        or not (arrived - factor * written.reshape(-1)).norm() <= 1e-3 * abs(factor) * written.norm()
    ):
        raise ModelError(f"{site}: {NOT_A_SUM}, so a logit cannot be split over its heads")
    return 1.0 if abs(factor - 1.0) < 1e-4 else factor


def logit_direction(model: Any, residual: Tensor, tokens: Sequence[int]) -> Float[Tensor, " d_model"]:
    """Return the direction of the stream that a logit reads through the final norm, frozen at this residual."""
    unembedding = model.unembedding()
    direction = unembedding.weight[tokens[0]].detach().float()
    if len(tokens) > 1:
        direction = direction - unembedding.weight[tokens[1]].detach().float()
    return through_frozen_norm(unembedding.norm, residual, direction)


@torch.enable_grad()
def reading_gradients(route: Route, read: Callable[[Tensor], Tensor]) -> dict[SourceNode, Tensor]:
    """The gradient of a linear reading of the target with respect to every source."""
    leaves = [torch.zeros(each.shape, device=source_device(each)).requires_grad_() for each in route.sources]
    parts: dict[Node, Tensor] = dict(zip(route.sources, leaves, strict=True))
    made = route.carry_together(parts)
    assert made is not None
    gradients = torch.autograd.grad(read(made), leaves, allow_unused=True)
    pairs = zip(route.sources, gradients, strict=True)
    return {source: gradient for source, gradient in pairs if gradient is not None}


@torch.no_grad()
def writer_share(writer: Writer, gradients: dict[SourceNode, Tensor]) -> float:
    """What one writer gives to a reading."""
    parts = ((part_of(source, part)[0], gradients[source]) for source, part in writer.sources if source in gradients)
    return sum((float((part.double() * gradient.double()).sum()) for part, gradient in parts), 0.0)


@torch.no_grad()
def head_shares(heads: HeadsOutput, gradient: Tensor, n_inputs: int) -> Float[Tensor, "input head"]:
    """What each head of a site gives to a reading of every input of a batch."""
    x = heads.x.float().reshape(-1, heads.n_heads, heads.weight.shape[1])
    read = torch.einsum("rm,hdm->rhd", gradient.reshape(-1, gradient.shape[-1]), heads.weight.float())
    by_row = (x * read).sum(-1)
    if heads.layout == "query first":
        return by_row.view(-1, n_inputs, heads.n_heads).sum(0)
    return by_row.view(n_inputs, -1, heads.n_heads).sum(1)


def value_reading(writer: Writer, gradients: dict[SourceNode, Tensor], position: int) -> Tensor:
    """How a reading depends on a head's z at one position."""
    source, part = writer.sources[0]
    assert source.heads is not None
    assert part is not None
    gradient = gradients[source]
    rows = gradient.reshape(-1, gradient.shape[-1]) @ source.heads.weight[part].float().T
    return rows[position]
