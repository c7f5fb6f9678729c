"""Why a head looks where it looks: one score split over the writers into query and key, as numbers and a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from headscope.attention.progress import uninterrupted
from headscope.errors import InputError
from headscope.heads.head_table import Rows
from headscope.heads.look.activation_cache import BUDGET
from headscope.heads.look.look import place_of
from headscope.heads.sentences import SENTENCES, percent
from headscope.models.structure.recorder import RecordedStream
from headscope.names import Head, HeadName, quoted

if TYPE_CHECKING:
    from headscope.heads.explain.score_split import RowSplit, SplitScores
    from headscope.heads.look.look import Look

SCHEMA_VERSION = 1
NUMBERS = ("weight", "score", "baseline", "total", "minus", "n_visible", "sink", "position_part", "error")
_KEPT_HEADS = 4  # heads of one look whose writers' parts are kept


@dataclass(frozen=True)
class Place:
    """A token of the text: its position and its text."""

    position: int
    token: str


@dataclass(frozen=True)
class Read:
    """The key that a head read most from one position, and the weight on it."""

    place: Place
    weight: float


@dataclass(frozen=True)
class Share:
    """What one writer gives to a relative score; for a head, also what it read at that place."""

    name: str
    kind: str
    value: float
    position_part: float = 0.0
    """Of its value: what is due to the offset between query and key, beyond the mean over the row's offsets."""
    read: Read | None = None


@dataclass(frozen=True)
class Pair:
    """What one writer at the query and one at the key give together."""

    query: str
    key: str
    value: float
    position_part: float = 0.0


@dataclass(frozen=True, repr=False)
class Why(Rows):
    """One arrow: ``total`` is the score minus ``baseline``, the sum of all pairs and of ``terms``."""

    head: Head
    group: tuple[Head, ...]
    """All heads that read the same keys."""
    query: Place
    key: Place
    weight: float
    score: float
    baseline: float
    minus: str
    n_visible: int
    sink: float | None
    """The weight that a learned sink takes, where there is one."""
    terms: Mapping[str, float]
    """What is not of any pair: ``distance`` (an additive bias) and ``cap`` (capped minus raw scores)."""
    error: float
    """|sum − score| relative to the sum of the sizes of all pairs."""
    terms_position: float
    arrow: tuple[RowSplit, int] = field(compare=False)
    """The row that it was split in, and its place there."""

    @cached_property
    def asked(self) -> tuple[Share, ...]:
        """Writers at the query, each summed over all writers at the key. With the terms, they sum to the total."""
        return self._shares[0]

    @cached_property
    def answered(self) -> tuple[Share, ...]:
        """Writers at the key, each summed over all writers at the query."""
        return self._shares[1]

    @cached_property
    def _shares(self) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
        row, index = self.arrow
        with uninterrupted():  # up to Python 3.11 a cached property holds a lock, which others would wait for
            return row.shares(index)

    @cached_property
    def pairs(self) -> Float[Tensor, "asked answered"]:
        """What each writer at the query and each at the key give together."""
        row, index = self.arrow
        return row.pairs(index)

    @cached_property
    def position_pairs(self) -> Float[Tensor, "asked answered"] | None:
        """Of the pairs, what is due to the offset; None where nothing is rotated."""
        row, index = self.arrow
        return row.position_pairs(index)

    @property
    def total(self) -> float:
        """The score minus its baseline."""
        return self.score - self.baseline

    @property
    def position_part(self) -> float:
        """What is due to the offset: of all pairs together, and of a position bias."""
        rotated = 0.0 if self.position_pairs is None else float(self.position_pairs.sum())
        return rotated + self.terms_position

    def strongest_pairs(self, count: int = 10) -> list[Pair]:
        """The pairs of the largest size, largest first."""
        flat = self.pairs.flatten()
        found = []
        for index in flat.abs().topk(min(count, flat.numel())).indices.tolist():
            a, b = divmod(index, self.pairs.shape[1])
            moved = 0.0 if self.position_pairs is None else float(self.position_pairs[a, b])
            found.append(Pair(self.asked[a].name, self.answered[b].name, float(flat[index]), moved))
        return found

    @property
    def sentence(self) -> str:
        """The split in words."""
        return _sentence(self)

    def _rows(self) -> list[dict[str, Any]]:
        """A row per writer and side."""
        kept = ("kind", "value", "position_part")
        return [
            {"side": side, "writer": share.name} | {name: getattr(share, name) for name in kept}
            for side, shares in (("query", self.asked), ("key", self.answered))
            for share in shares
        ]

    def to_dict(self, pairs: int = 20) -> dict[str, Any]:
        """The split as plain values, with its strongest pairs and what the others come to."""
        strongest = self.strongest_pairs(pairs)
        size = float(self.pairs.abs().sum())
        return {
            "schema_version": SCHEMA_VERSION,
            "head": str(self.head),
            "group": [str(head) for head in self.group],
            "query": asdict(self.query),
            "key": asdict(self.key),
            **{name: getattr(self, name) for name in NUMBERS},
            "asked": [asdict(share) for share in by_size(self.asked)],
            "answered": [asdict(share) for share in by_size(self.answered)],
            "terms": dict(self.terms),
            "pairs": [asdict(each) for each in strongest],
            "other_pairs": {
                "count": self.pairs.numel() - len(strongest),
                "sum": float(self.pairs.sum()) - sum(each.value for each in strongest),
                "size": size - sum(abs(each.value) for each in strongest),
            },
            "sentence": self.sentence,
        }

    def to_short(self) -> dict[str, Any]:
        """The sentence and the largest contributions, for a program."""
        from headscope.heads.short import short_why

        return short_why(self)

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        for side, at, shares in (("Query", self.query, self.asked), ("Key", self.key, self.answered)):
            total = f"{sum(share.value for share in shares):+.2f}"
            lines.append(f"{side} side, {quoted(at.token)} (position {at.position}): {total}. The largest parts:")
            for share in by_size(shares)[:8]:
                read = share.read
                said = "" if read is None else f"  attends most to {quoted(read.place.token)} ({percent(read.weight)})"
                lines.append(f"  {share.name:<22} {share.value:+7.2f}{said}")
        lines += [f"{name}: {value:+.2f}" for name, value in self.terms.items()]
        return "\n".join(lines)

    __repr__ = __str__


def by_size(shares: Sequence[Share]) -> list[Share]:
    """Shares by absolute size, largest first."""
    return sorted(shares, key=lambda share: -abs(share.value))


def _sentence(why: Why) -> str:
    """One arrow in words."""
    say: dict[str, str] = SENTENCES["why"]
    query, key = (say["place"].format(token=quoted(at.token), position=at.position) for at in (why.query, why.key))
    if why.n_visible == 1:
        return say["single"].format(query=query, head=why.head, key=key, score=f"{why.score:.2f}")
    against = say[why.minus if why.minus in ("mean", "others") else "other"].format(position=why.minus)
    score, side = f"{abs(why.total):.2f}", say["below" if why.total < 0 else "above"]
    given = {"query": query, "head": why.head, "weight": percent(why.weight), "key": key}
    sink = [] if why.sink is None else [say["sink"].format(weight=percent(why.sink))]
    return " ".join([say["gives"].format(**given, total=score, side=side, against=against), *_reasons(why, say), *sink])


def _reasons(why: Why, say: Mapping[str, str]) -> Iterator[str]:
    """What gives the key its score, then the query side: of the contributions with the score's sign, the largest."""
    total, place, sign = why.total, why.position_part, 1 if why.total >= 0 else -1
    most, limits = say["largest" if sign > 0 else "most_negative"], SENTENCES["shares_of_total"]
    ranked = sorted(why.answered, key=lambda share: -share.value * sign)
    top, against = ranked[0], ranked[-1]
    named = {"most": most, "name": _named(top), "part": f"{top.value:+.2f}"}
    if place * total > 0 and abs(place) >= limits["distance_decides"] * abs(total):
        back = why.query.position - why.key.position
        offset = say[("ahead" if back < 0 else "back") + ("_one" if abs(back) == 1 else "")].format(count=abs(back))
        side = say["lower" if place < 0 else "higher"]
        yield say["distance"].format(offset=offset, part=f"{abs(place):.2f}", side=side)
    elif all(share.kind in SENTENCES["before_layers"] for share in why.answered):
        yield say["unwritten"]
        return
    elif -against.value * sign > abs(total):
        up, down = (top, against) if sign > 0 else (against, top)
        more, less = f"{up.value:+.2f}", f"{down.value:+.2f}"
        yield say["both_ways"].format(up=_named(up), more=more, down=_named(down), less=less)
    elif top.value * sign < limits["one_component_explains"] * abs(total):
        yield say["none_alone"].format(**named)
    else:
        yield say["mainly"].format(**named, attended=_read(top, why.key, say))
    large = (share for share in why.asked if share.value * sign > limits["query_side_is_named"] * abs(total))
    asked = sorted(large, key=lambda share: -abs(share.value))[:2]
    parts = [say["asked_part"].format(name=_named(share), part=f"{share.value:+.2f}") for share in asked]
    if parts:
        yield say["asked_two" if parts[1:] else "asked"].format(most=most, first=parts[0], second=parts[-1])


def _named(share: Share) -> str:
    template: str = SENTENCES["writers"].get(share.kind, "{name}")
    return template.format(name=share.name.replace("mlp ", "MLP "))


def _read(share: Share, key: Place, say: Mapping[str, str]) -> str:
    """Where a head that wrote to the key had attended most from there."""
    if share.read is None:
        return ""
    place, weight = share.read.place, percent(share.read.weight)
    if place.position == key.position:
        return say["attended_itself"].format(key=quoted(key.token), weight=weight)
    where = {0: say["first_token"], key.position - 1: say["token_before"]}.get(place.position, "")
    return say["attended"].format(key=quoted(key.token), token=quoted(place.token), where=where, weight=weight)


class Explained:
    """The recorded stream of a look, and the latest heads that were split."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.recorded = look.recorded
        self.stream: RecordedStream = self.recorded.stream
        self._heads: dict[Head, SplitScores] = {}

    def scores(self, head: Head) -> SplitScores:
        """The parts of one head's q and k."""
        if head not in self._heads:
            from headscope.heads.explain.score_split import SplitScores

            self.check_size(head)
            kv_head = head.head // self.look.shape.sites[head.site].group_size
            made = SplitScores(self.stream, head, kv_head, self.look.source(head))
            while len(self._heads) >= _KEPT_HEADS:
                del self._heads[next(iter(self._heads))]
            self._heads[head] = made
        return self._heads[head]

    def check_size(self, head: Head) -> None:
        """Refuse a text whose parts for one head would not fit in the budget of a look."""
        site = self.look.shape.sites[head.site]
        writers = sum(each.n_heads + 1 for each in self.look.shape.sites.values())
        length = max(self.look.cache.reached[head.site])
        size = 3 * 4 * writers * length * site.d_head  # q, k, and k on the mean over offsets, in float32
        if size > BUDGET:
            fits = length * BUDGET // size
            raise InputError(
                f"the parts of {writers} writers in {head} take {size / 2**30:.1f} GiB for {length} tokens, and a look "
                f"keeps {BUDGET / 2**30:.0f} GiB; explain a text of at most {fits} tokens"
            )


def explained(look: Look) -> Explained:
    """The look's recorded stream; recorded on first use, in one pass."""
    if look.edits:
        raise InputError(
            "this look was read under edits, and scores are split only for the unedited model; look at the text again "
            "outside `with scope.edit(…)`"
        )
    look.cache.refuse_changed_weights()
    found = look.explained if isinstance(look.explained, Explained) else Explained(look)
    look.explained = None if look.kept_pass is None else found
    return found


def why(look: Look, head: HeadName, query: int | str, key: int | str | None, minus: int | str | None) -> Why:
    """Split one arrow."""
    found = look.find(head)
    row = place_of(look.query_tokens(found.site), query, "query")
    if key is None:
        column = int(look.weights(found, slice(row, row + 1))[0].argmax())
    else:
        column = place_of(look.key_tokens(found.site), key, "key")
    return why_row(look, found, row, [column], minus)[0]


def why_row(
    look: Look, head: HeadName, query: int | str, keys: Sequence[int] | None, minus: int | str | None
) -> list[Why]:
    """Split several arrows of one row."""
    from headscope.heads.explain.score_split import split_row

    found = look.find(head)
    row = place_of(look.query_tokens(found.site), query, "query")
    tokens = look.key_tokens(found.site)
    against = minus if minus is None or minus == "others" else place_of(tokens, minus, "key")
    scores = explained(look).scores(found)
    chosen = scores.row(row).visible.tolist() if keys is None else [place_of(tokens, key, "key") for key in keys]
    return split_row(scores, row, chosen, against, look)
