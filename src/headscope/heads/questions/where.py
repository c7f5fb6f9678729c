"""Where a head's attention goes: a partition of it into named classes of keys that add up to 1.

Every cell of a pattern belongs to the first class that its key fits, content before position. Beside each share stand
its interval over texts, the share that the class has alone (whatever classes stand before it), at how many positions
there is such a key, and what a head would give it that has the same weight on the first token and the same mean weight
at every distance, blind to what the tokens are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.bootstrap import percentile_interval, resampling_counts
from headscope.heads.head_table import HeadTable, of_head
from headscope.heads.questions.label_rules import LabelRule
from headscope.heads.sentences import SENTENCES, percent
from headscope.models.protocol import Token
from headscope.names import Head, HeadName

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

_NAMES: dict[str, str] = SENTENCES["classes"]
FIRST, SINK = _NAMES["first"], _NAMES["sink"]
_END = re.compile(r"""[.!?…]+["'”’)\]]*|[。！？]+""")
_ADDED = re.compile(r"\[[A-Z]+\]|<\|?[^<>\s]+\|?>")
MOST_TOKENS = 512  # read of each text: a head's partition needs thousands of rows, not millions
_CELLS = 2**22  # of a site's patterns that are held at a time
FITTINGS = 30
MENTIONED = 0.1  # a sentence names the classes that get at least this much of the rest, at most three
_ELSEWHERE = [_NAMES[key] for key in ("far", "farther", "farthest")]
_BY_PLACE = [_NAMES[key] for key in ("itself", "previous", "near", "next", "near_ahead")]


def key_classes(
    tokens: Sequence[Token], causal: bool, own: Sequence[LabelRule] = ()
) -> dict[str, Bool[Tensor, "query key"]]:
    """Mark the cells that fit each class, overlaps included; in causal attention, only keys up to the query."""
    ids = torch.tensor([token.id for token in tokens])
    at = torch.arange(len(tokens))
    back = at[:, None] - at
    text = [token.text for token in tokens]
    ends = torch.tensor(["\n" in each or bool(_END.fullmatch(each.strip())) for each in text])
    signs = torch.tensor([bool(re.fullmatch(r"[\W_]+", each.strip())) for each in text])
    added = torch.tensor([bool(_ADDED.fullmatch(each.strip())) for each in text])
    before = torch.cat((torch.full((1,), -1), ids[:-1]))
    earlier = back > 0 if causal else back != 0
    found = {}
    for rule in own:
        query, key = rule.labels(tokens)
        found[rule.name] = (query[:, None] == key) & (query != -1)[:, None]
        if rule.exclude_self:
            found[rule.name] &= back != 0
    which = "" if causal else "_any"
    found |= {
        FIRST: (at == 0).expand_as(back),
        _NAMES["itself"]: back == 0,
        _NAMES["followed" + which]: (ids[:, None] == before) & earlier & (back != -1),
        _NAMES["copy" + which]: (ids[:, None] == ids) & earlier,
        _NAMES["previous"]: back == 1,
        _NAMES["near"]: (back >= 2) & (back <= 4),
    }
    if not causal:
        found |= {_NAMES["next"]: back == -1, _NAMES["near_ahead"]: (back <= -2) & (back >= -4)}
        found[_NAMES["special"]] = added.expand_as(back)
    found |= {
        _NAMES["end"]: ends.expand_as(back),
        _NAMES["signs"]: (signs & ~ends).expand_as(back),
    }
    far = back.abs()
    bands = (far >= 5) & (far <= 16), (far >= 17) & (far <= 64), far > 64
    found |= dict(zip(_ELSEWHERE, bands, strict=True))
    return {name: cells & (back >= 0) for name, cells in found.items()} if causal else found


def first_fitting(classes: Mapping[str, Bool[Tensor, "query key"]]) -> Int[Tensor, "query key"]:
    """Return the first class that each cell fits; cells that fit none (hidden by a causal mask) get the last."""
    return torch.stack(list(classes.values())).to(torch.uint8).argmax(0)


@dataclass(frozen=True)
class ClassShare:
    """How much of a head's attention a class of keys gets, in all rows of some texts; shares of a head add up to 1."""

    share: float
    low: float | None
    """With ``high``, the 95 % interval over texts; None of one text."""
    high: float | None
    alone: float
    """The attention on all keys of the class but the first token, whatever classes come before it."""
    present: float
    """At what share of positions there is such a key, other than the first token."""
    by_distance: float
    """The share in a head with the same weights on the first token and at every distance, blind to the tokens."""


@dataclass(frozen=True)
class HeadWhere:
    """Where one head's attention goes: a share per class."""

    head: Head
    shares: Mapping[str, ClassShare]
    n_texts: int
    n_tokens: int
    """Of the longest text."""
    kind: str = "texts"

    def __str__(self) -> str:
        texts = f"On {self.n_texts} {self.kind} of up to {self.n_tokens} tokens" if self.n_texts > 1 else "On this text"
        first = self.shares[FIRST].share
        sink = self.shares[SINK].share if SINK in self.shares else 0.0
        rest = 1 - first - sink
        said = f"{texts}, {percent(first)} of its attention goes to the first token"
        said += f" and {percent(sink)} to a learned sink." if sink else "."
        if rest < 0.005:
            return said
        kinds = [(each.share / rest, name) for name, each in self.shares.items() if name not in (FIRST, SINK)]
        most = sorted(kinds, reverse=True)[:3]
        kept = [name for share, name in most if share >= MENTIONED or name == most[0][1]]
        goes = [self._goes(name, rest) for name in sorted(kept, key=self._part, reverse=True)]
        if sink or first >= MENTIONED:
            return f"{said} Of the rest, {', '.join(goes)}."
        return f"{texts}, {', '.join(goes).replace(' goes', ' of its attention outside the first token goes', 1)}."

    def _part(self, name: str) -> float:
        """What a class gets, measured alone; what goes elsewhere is in no other class."""
        return self.shares[name].share if name in _ELSEWHERE else self.shares[name].alone

    def _goes(self, name: str, rest: float) -> str:
        to = f"to {name}{self._condition(name)}"
        return f"{percent(self._part(name) / rest)} goes {name.replace(', ', ' (') + ')' if name in _ELSEWHERE else to}"

    def _condition(self, name: str) -> str:
        present = self.shares[name].present
        return "" if name in _BY_PLACE or present > 0.95 else f" (there is one at {percent(present)} of positions)"


@dataclass(frozen=True, repr=False)
class Where(HeadTable):
    """Where every head's attention goes on some texts: ``where["5.6"]`` is one head's."""

    _column, _by = "share", "class"
    heads: Mapping[Head, HeadWhere]

    def __getitem__(self, head: HeadName) -> HeadWhere:
        found = Head.parse(head)
        if found not in self.heads:
            raise InputError(f"{found} was not measured: these texts reached {len(self.heads)} heads, not this one")
        return self.heads[found]

    def _rows(self) -> list[dict[str, Any]]:
        """A row per head and class."""
        return [
            {**of_head(head), "class": name, **vars(share)}
            for head, found in self.heads.items()
            for name, share in found.shares.items()
        ]

    def _title(self) -> str:
        return "Share of each head's attention"

    def __str__(self) -> str:
        return "\n".join(f"{head}: {found}" for head, found in self.heads.items())


@dataclass
class _Site:
    """Sums of one site over texts."""

    sums: list[Float[Tensor, "head class"]] = field(default_factory=list)
    alone: list[Float[Tensor, "head class"]] = field(default_factory=list)
    present: list[Float[Tensor, " class"]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    first: list[Float[Tensor, "head query"]] = field(default_factory=list)
    """Of each text, the weight on the first token; ``rest``, on all others."""
    rest: list[Float[Tensor, "head query"]] = field(default_factory=list)
    far: list[Float[Tensor, "head distance"]] = field(default_factory=list)
    """Of each text, the attention at every distance but on the first token."""
    tokens: list[Sequence[Token]] = field(default_factory=list)


def where(looks: Iterable[Look], own: Sequence[LabelRule] = (), *, only: str | None = None) -> Where:
    """Divide the attention of every head, ``only`` of one site; leave out sites whose queries are not their keys."""
    sites: dict[str, _Site] = {}
    shape = None
    for look in looks:
        shape = look.shape
        for site in look.sites if only is None else (only,):
            sides, known = look.sides(site), shape.sites[site]
            if sides is not None and known.kind != "cross" and len(sides[0]) > 1:
                _add(sites.setdefault(site, _Site()), look, site, own)
    if shape is None or not sites:
        raise InputError("no text of two or more tokens whose heads read that text was given")
    found: dict[Head, HeadWhere] = {}
    for site, sums in sites.items():
        found |= _heads(site, sums, shape.sites[site].causal, own)
    return Where(found)


def _bands(n_heads: int, n_query: int, n_key: int) -> Iterable[slice]:
    step = max(_CELLS // (n_heads * n_key), 1)
    return (slice(start, min(start + step, n_query)) for start in range(0, n_query, step))


def _add(to: _Site, look: Look, site: str, own: Sequence[LabelRule]) -> None:
    tokens, causal = look.query_tokens(site), look.shape.sites[site].causal
    classes = key_classes(tokens, causal, own)
    which, n_heads, length = first_fitting(classes), look.shape.sites[site].n_heads, len(tokens)
    begin = int(causal)  # the first row of causal attention attends to one key whatever the head does
    sums, alone = torch.zeros(2, n_heads, len(classes), dtype=torch.float64)
    first, rest = torch.zeros(2, n_heads, length, dtype=torch.float64)
    far = torch.zeros(n_heads, 2 * length - 1, dtype=torch.float64)
    distance = length - 1 + torch.arange(length)[:, None] - torch.arange(length)
    for rows in _bands(n_heads, length, length):
        weights = look.site_weights(site, rows).cpu().double()
        first[:, rows] = weights[..., 0]
        if rows.start < begin:
            weights[:, : begin - rows.start] = 0
        sums += (
            weights.flatten(1) @ torch.stack([which[rows] == at for at in range(len(classes))]).flatten(1).double().T
        )
        weights[..., 0] = 0
        rest[:, rows] = weights.sum(-1)
        far.index_add_(1, distance[rows].flatten(), weights.flatten(1))
        alone += weights.flatten(1) @ torch.stack([cells[rows] for cells in classes.values()]).flatten(1).double().T
    others = torch.stack([cells[begin:, 1:].any(1).double().sum() for cells in classes.values()])
    to.sums.append(sums)
    to.alone.append(alone)
    to.present.append(others)
    to.rows.append(length - begin)
    to.first.append(first)
    to.rest.append(rest)
    to.tokens.append(tokens)
    to.far.append(far)


def _heads(site: str, to: _Site, causal: bool, own: Sequence[LabelRule]) -> dict[Head, HeadWhere]:
    sums, rows = torch.stack(to.sums), torch.tensor(to.rows, dtype=torch.float64)
    total = rows.sum()
    shares = sums.sum(0) / total
    low = high = None
    if len(rows) > 1:
        counts = resampling_counts(len(rows), seed=0)
        drawn = torch.einsum("rt,thc->rhc", counts, sums) / (counts @ rows)[:, None, None]
        low, high = percentile_interval(drawn)
    alone, present = torch.stack(to.alone).sum(0) / total, torch.stack(to.present).sum(0) / total
    blind = _by_distance(to, causal, own) / total
    names = list(key_classes(to.tokens[0], causal, own))
    found = {}
    for index in range(shares.shape[0]):
        head = Head(site, index)
        of = {
            name: ClassShare(
                float(shares[index, at]),
                None if low is None else float(low[index, at]),
                None if high is None else float(high[index, at]),
                float(alone[index, at]) if name != FIRST else float(shares[index, at]),
                float(present[at]) if name != FIRST else 1.0,
                float(blind[index, at]),
            )
            for at, name in enumerate(names)
        }
        left = 1 - float(shares[index].sum())
        if left > 1e-3:  # learned sinks take a share of every row
            of[SINK] = ClassShare(left, None, None, left, 1.0, left)
        found[head] = HeadWhere(head, of, len(rows), max(map(len, to.tokens)))
    return found


def _by_distance(to: _Site, causal: bool, own: Sequence[LabelRule]) -> Float[Tensor, "head class"]:
    """Sums over rows of what each class gets in a head that is blind to the tokens (see ``ClassShare.by_distance``)."""
    profile = _distance_profile(to, causal)
    middle = profile.shape[1] // 2
    totals = []
    for tokens, first, rest in zip(to.tokens, to.first, to.rest, strict=True):
        length, begin = len(tokens), int(causal)
        classes = key_classes(tokens, causal, own)
        which, distance = first_fitting(classes), torch.arange(length)[:, None] - torch.arange(length)
        total = torch.zeros(first.shape[0], len(classes), dtype=torch.float64)
        for rows in _bands(first.shape[0], length, length):
            weights = profile[:, middle + distance[rows]]
            weights[..., 0] = 0
            weights *= rest[:, rows, None] / weights.sum(-1, keepdim=True).clamp(min=1e-12)
            weights[..., 0] = first[:, rows]
            if rows.start < begin:
                weights[:, : begin - rows.start] = 0
            total.index_add_(1, which[rows].flatten(), weights.flatten(1))
        totals.append(total)
    return torch.stack(totals).sum(0)


def _distance_profile(to: _Site, causal: bool) -> Float[Tensor, "head distance"]:
    """Weights by distance that give every distance, summed over rows, what the head gives it; rows are normalised.

    Found by iterative proportional fitting (Deming and Stephan 1940): longer rows see distances that others do not.
    """
    longest = max(far.shape[1] for far in to.far)
    seen = torch.stack([F.pad(far, ((longest - far.shape[1]) // 2,) * 2) for far in to.far]).sum(0)
    middle, profile = longest // 2, seen
    for _ in range(FITTINGS):
        made = torch.zeros_like(profile)
        sums = F.pad(profile.cumsum(1), (1, 0))
        for rest in to.rest:
            length = rest.shape[1]
            at = torch.arange(1 if causal else 0, length)
            low, end = middle + (torch.zeros_like(at) if causal else at - (length - 1)), middle + at
            each = rest[:, at] / (sums[:, end] - sums[:, low]).clamp(min=1e-12)
            steps = torch.zeros(profile.shape[0], profile.shape[1] + 1, dtype=torch.float64)
            steps.index_add_(1, low, each)
            steps.index_add_(1, end, -each)
            made += profile * steps.cumsum(1)[:, :-1]
        profile = profile * torch.where(made > 1e-12, seen / made.clamp(min=1e-12), 0.0)
        profile = profile / profile.sum(1, keepdim=True).clamp(min=1e-12)
    return profile
