"""Trace a prediction back to tokens: the logit's shares, which keys the large heads read, and who wrote what they read.

Every edge is a term of an exact sum, with norms and patterns held. What is smaller than a floor is left out, and its
number, sum, and what is up and down are said at every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.errors import InputError, ModelError
from headscope.heads.explain.score_split import Reading
from headscope.heads.explain.why import Explained, Place, Share, Why, by_size, explained
from headscope.heads.look.attribution import logit_to_split
from headscope.heads.look.look import Look, needs_predictions
from headscope.heads.sentences import SENTENCES, percent
from headscope.models.structure.carry import Route
from headscope.models.structure.recorded_pass import logit_direction, reading_gradients, value_reading, writer_share
from headscope.models.structure.recorder import Writer
from headscope.models.structure.tape import Node, SourceNode
from headscope.names import Head, quoted

DEPTH = 4
LARGEST = 200  # parts that are followed further; beyond them a part is a leaf
SINK = 0.5  # of what a head carried: with less from later tokens than the first, it is not followed
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class LeftOut:
    """What a level does not show: how many terms, and what they add up to, positive and negative apart."""

    count: int
    up: float
    down: float

    @property
    def sum(self) -> float:
        return self.up + self.down


@dataclass(frozen=True)
class KeyRead:
    """A key that a head read: its weight, what its value adds to the prediction, why, and who wrote the value."""

    place: Place
    weight: float
    share: float
    asked: tuple[Share, ...]
    answered: tuple[Share, ...]
    """The strongest writers of the arrow's score, relative to the row's mean, at the query and at the key."""
    total: float
    """The arrow's score relative to the row's mean."""
    values: tuple[Step, ...]
    left_out: LeftOut


@dataclass(frozen=True)
class Step:
    """A part that adds to the prediction: a head or MLP or embedding, where it wrote, and its share in logits."""

    name: str
    kind: str
    place: Place
    share: float
    rests: bool = False
    """Whether most of what the head carried comes from the first token."""
    reads: tuple[KeyRead, ...] = ()
    left_out: LeftOut = field(default_factory=lambda: LeftOut(0, 0.0, 0.0))
    note: str = ""


@dataclass(frozen=True, repr=False)
class TracedPrediction:
    """A prediction traced back. ``total`` is the sum of all shares, of ``left_out`` and of ``constant``."""

    token: str
    minus: str | None
    position: Place
    total: float
    constant: float
    """What no writer gives: the final norm's β and the bias of the unembedding."""
    steps: tuple[Step, ...]
    left_out: LeftOut
    floor: float
    probability: float
    capped: bool = False
    """Whether the model caps its logits; ``total`` is before the cap."""

    @property
    def sentence(self) -> str:
        """The largest contributions, and the largest head that works through other tokens than the first."""
        say: dict[str, str] = SENTENCES["trace"]
        given = {"token": quoted(self.token), "after": quoted(self.position.token), "total": f"{self.total:+.2f}"}
        minus, cap = "" if self.minus is None else quoted(self.minus), say["cap"] if self.capped else ""
        said = [say["logit" if self.minus is None else "rather"].format(**given, minus=minus, cap=cap)]
        if not self.steps:
            return f"{said[0]} {say['none'].format(percent=f'{self.floor:.0%}')}"
        largest = ", ".join(f"{step.name.replace('mlp ', 'MLP ')} {step.share:+.2f}" for step in self.steps[:3])
        said.append(say["largest_many" if self.steps[1:] else "largest"].format(named=largest))
        head = next((step for step in self.steps if step.kind == "head" and not step.rests), None)
        if head is not None and head.reads:
            read, moves = head.reads[0], say["raises" if head.share > 0 else "lowers"]
            through = {"head": head.name, "moves": moves, "share": f"{head.share:+.2f}", "part": f"{read.share:+.2f}"}
            at = {"token": quoted(read.place.token), "position": read.place.position}
            said.append(say["through_head"].format(**through, **at, weight=percent(read.weight)))
        return " ".join(said)

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain values."""
        return {"schema_version": SCHEMA_VERSION, "sentence": self.sentence, **asdict(self)}

    def __str__(self) -> str:
        return "\n".join([self.sentence, "", "Contributions, largest first:", *_lines(self.steps, self.left_out, "")])

    __repr__ = __str__


def _lines(steps: Sequence[Step], left_out: LeftOut, indent: str) -> Iterator[str]:
    for step in steps:
        rest = "  mostly from the first token" if step.rests else f"  {step.note}" if step.note else ""
        yield f"{indent}{step.share:+7.2f}  {step.name} at {quoted(step.place.token)}{rest}"
        for read in step.reads if not step.rests else ():
            led = ", ".join(f"{each.name} {each.value:+.2f}" for each in read.answered[:2])
            asked = ", ".join(f"{each.name} {each.value:+.2f}" for each in read.asked[:2])
            yield f"{indent}    from {quoted(read.place.token)} {read.share:+.2f} (weight {read.weight:.2f})" + (
                f"; key side: {led}; query side: {asked}" if led else ""
            )
            yield from _lines(read.values, read.left_out, indent + "        ")
    if left_out.count:
        yield f"{indent}{left_out.sum:+7.2f}  {left_out.count} smaller ({left_out.up:+.2f}, {left_out.down:+.2f})"


def trace(look: Look, token: str | int, minus: str | int | None, position: int | str, floor: float) -> TracedPrediction:
    """Trace the logit of a token, or its difference to another's, at one position."""
    needs_predictions(look)
    if not 0 < floor < 1:
        raise InputError(f"floor={floor}: the share of a prediction below which parts are left out is between 0 and 1")
    place = look.position(position)
    ids = [look.token_id(token)] + ([] if minus is None else [look.token_id(minus)])
    if len(set(ids)) < len(ids):
        raise InputError(
            f"Both token and minus are {look.model.processor.decode(torch.tensor(ids[:1]))!r}, so their difference is "
            "always 0. Choose a different minus, or leave it out."
        )
    found = explained(look)
    logits = look.cache.logits_at(place).float()
    unembedding, residual = look.model.unembedding(), found.recorded.final(place)
    assert found.stream.final is not None, "or it would be refused"
    total = logit_to_split(unembedding, residual, ids, logits)
    tracer = _Tracer(look, found, floor * abs(total))
    with torch.no_grad():
        direction = logit_direction(look.model, residual, ids)
        steps, left, written = tracer.split(found.stream.final, (place,), direction, DEPTH)
    names = [look.model.processor.decode(torch.tensor([each])) for each in ids]
    at = Place(place, look.written[place].text)
    probability = float(logits.softmax(-1)[ids[0]])
    minus_name = names[1] if len(names) > 1 else None
    constant = total - written
    return TracedPrediction(
        names[0], minus_name, at, total, constant, steps, left, floor, probability, unembedding.caps
    )


class _Tracer:
    """Splits a linear reading of the stream at one position over its writers, and goes on behind their values."""

    def __init__(self, look: Look, found: Explained, floor: float) -> None:
        self.look, self.found, self.floor = look, found, floor
        self._readings: dict[tuple[str, int], Reading] = {}
        self._routes: dict[Node, tuple[Route, list[Writer]]] = {}
        self.done = 0

    def split(
        self, node: Node, index: tuple[int, ...], reading: Tensor, depth: int
    ) -> tuple[tuple[Step, ...], LeftOut, float]:
        """What each writer gives to ``reading · node[0, *index]``: the large ones, the rest, and the sum."""
        route, writers = self._route(node)

        def read(whole: Tensor) -> Tensor:
            for place in (0, *index):
                whole = whole[place]
            return whole @ reading.to(whole)

        gradients = reading_gradients(route, read)
        shares = [writer_share(writer, gradients) for writer in writers]
        large = [(w, value) for w, value in zip(writers, shares, strict=True) if abs(value) >= self.floor]
        small = [value for value in shares if abs(value) < self.floor]
        large.sort(key=lambda pair: -abs(pair[1]))
        steps = tuple(self._step(writer, value, gradients, (index[-1], depth)) for writer, value in large)
        return steps, _left_out(small), float(sum(shares))

    def _route(self, node: Node) -> tuple[Route, list[Writer]]:
        if node not in self._routes:
            route = Route(node)
            self._routes[node] = (route, self.found.stream.writers(route))
        return self._routes[node]

    def _step(self, writer: Writer, share: float, gradients: dict[SourceNode, Tensor], at: tuple[int, int]) -> Step:
        position, depth = at
        self.done += 1
        report_progress("tracing back", self.done, self.done + 1)
        place = Place(position, self._token(writer, position))
        if writer.kind != "head" or depth == 0 or self.done > LARGEST:
            note = {"mlp": "cannot be split further exactly", "head": "not followed further"}.get(writer.kind, "")
            return Step(writer.name, writer.kind, place, share, note=note)
        head = Head.parse(writer.name)
        kind = self.look.model.output_weight(head.site).kind
        if kind != "exact" or head.site not in self.look.sites:
            return Step(writer.name, writer.kind, place, share, note="something lies between its values and W_O")
        reading = value_reading(writer, gradients, position)
        return self._reads(Step(writer.name, writer.kind, place, share), head, reading, (position, depth))

    def _reads(self, step: Step, head: Head, reading: Tensor, at: tuple[int, int]) -> Step:
        """The keys that a head read, by what their values carried."""
        position, depth = at
        site = self.look.shape.sites[head.site]
        kv = head.head // site.group_size
        weights = self.look.weights(head, slice(position, position + 1))[0].double()
        node = self.found.stream.node(head.site, "v")
        values = self._values(head.site, kv)
        shares = (weights * (values.double() @ reading.double())).tolist()
        tokens = self.look.key_tokens(head.site)
        moved = sum(map(abs, shares[1:]))
        rests = position > 0 and moved < SINK * sum(map(abs, shares))
        chosen = sorted((k for k, s in enumerate(shares) if abs(s) >= self.floor), key=lambda k: -abs(shares[k]))
        reads = []
        for key in chosen:
            below, left, _ = (
                self.split(node, (kv, key), reading * float(weights[key]), depth - 1)
                if not rests
                else ((), LeftOut(0, 0.0, 0.0), 0.0)
            )
            why = None if rests else self._why(head, position, key)
            reads.append(
                KeyRead(
                    Place(key, tokens[key].text),
                    float(weights[key]),
                    shares[key],
                    () if why is None else tuple(by_size(why.asked)[:3]),
                    () if why is None else tuple(by_size(why.answered)[:3]),
                    0.0 if why is None else why.total,
                    below,
                    left,
                )
            )
        left = _left_out([share for key, share in enumerate(shares) if key not in chosen and share != 0.0])
        return Step(step.name, step.kind, step.place, step.share, rests, tuple(reads), left)

    def _why(self, head: Head, query: int, key: int) -> Why | None:
        try:
            return self.look.why(head, query, key)
        except ModelError:  # what it read is known though its score cannot be split
            return None

    def _values(self, site: str, kv: int) -> Tensor:
        """v of one KV head at every key: the sum of what was written into it."""
        if (site, kv) not in self._readings:
            self._readings[site, kv] = Reading(self.found.stream, site, "v", kv)
        return self._readings[site, kv].parts().parts.sum(0)

    def _token(self, writer: Writer, position: int) -> str:
        site = writer.layer if writer.layer in self.look.sites else self.look.sites[0]
        tokens = self.look.query_tokens(str(site)) if writer.kind == "head" else self.look.written
        return tokens[position].text if position < len(tokens) else str(position)


def _left_out(values: Sequence[float]) -> LeftOut:
    return LeftOut(len(values), float(sum(v for v in values if v > 0)), float(sum(v for v in values if v < 0)))
