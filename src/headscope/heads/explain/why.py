"""Why a head looks where it looks: one score split over the writers into query and key, as numbers and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from headscope.attention.progress import uninterrupted
from headscope.errors import InputError
from headscope.heads.look.activation_cache import BUDGET
from headscope.models.protocol import Token
from headscope.models.structure.writers import RecordedStream
from headscope.names import Head, HeadName

if TYPE_CHECKING:
    import pyarrow as pa

    from headscope.heads.explain.score_split import RowSplit, SplitScores
    from headscope.heads.look.look import Look

SCHEMA_VERSION = 1
_KEPT_HEADS = 4  # heads of one look whose writers' parts are kept
ENOUGH = 0.4  # of the total, from which on one writer explains an arrow
MOSTLY = 0.5  # of the total, from which on the place decides
MARKED = 0.5  # weight from which on a head marked a token as the one after another
RELATIVE = {"mean": "the row's mean", "others": "the others, weighted by the pattern"}


@dataclass(frozen=True)
class Place:
    """A token of the text: its position and its text."""

    position: int
    token: str

    def to_dict(self) -> dict[str, Any]:
        return {"position": self.position, "token": self.token}


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

    def to_dict(self) -> dict[str, Any]:
        """The share as plain values."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind, "value": self.value}
        found["position_part"] = self.position_part
        if self.read is not None:
            found["read"] = {**self.read.place.to_dict(), "weight": self.read.weight}
        return found


@dataclass(frozen=True)
class Pair:
    """What one writer at the query and one at the key give together."""

    query: str
    key: str
    value: float
    position_part: float = 0.0


@dataclass(frozen=True, repr=False)
class Why:
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
        """The split in one or two sentences."""
        return _sentence(self)

    def table(self) -> pa.Table:
        """An Arrow table with one row per writer and side."""
        import pyarrow as pa

        sides = [("query", share) for share in self.asked] + [("key", share) for share in self.answered]
        return pa.table(
            {
                "side": [side for side, _ in sides],
                "writer": [share.name for _, share in sides],
                "kind": [share.kind for _, share in sides],
                "value": [share.value for _, share in sides],
                "position_part": [share.position_part for _, share in sides],
            }
        )

    def to_dict(self, pairs: int = 20) -> dict[str, Any]:
        """The split as plain values, with its strongest pairs and what the others come to."""
        strongest = self.strongest_pairs(pairs)
        size = float(self.pairs.abs().sum())
        return {
            "schema_version": SCHEMA_VERSION,
            "head": str(self.head),
            "group": [str(head) for head in self.group],
            "query": self.query.to_dict(),
            "key": self.key.to_dict(),
            "weight": self.weight,
            "score": self.score,
            "baseline": self.baseline,
            "total": self.total,
            "minus": self.minus,
            "n_visible": self.n_visible,
            "sink": self.sink,
            "position_part": self.position_part,
            "asked": [share.to_dict() for share in by_size(self.asked)],
            "answered": [share.to_dict() for share in by_size(self.answered)],
            "terms": dict(self.terms),
            "pairs": [
                {"query": each.query, "key": each.key, "value": each.value, "position_part": each.position_part}
                for each in strongest
            ],
            "other_pairs": {
                "count": self.pairs.numel() - len(strongest),
                "sum": float(self.pairs.sum()) - sum(each.value for each in strongest),
                "size": size - sum(abs(each.value) for each in strongest),
            },
            "error": self.error,
            "sentence": self.sentence,
        }

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        for title, shares in (("who asked", self.asked), ("who answered", self.answered)):
            lines.append(f"{title} (sum {sum(share.value for share in shares):+.2f})")
            for share in by_size(shares)[:8]:
                read = "" if share.read is None else f"  read {share.read.place.token!r} {share.read.weight:.2f}"
                lines.append(f"  {share.name:<22} {share.value:+7.2f}{read}")
        lines += [f"{name}: {value:+.2f}" for name, value in self.terms.items()]
        return "\n".join(lines)

    __repr__ = __str__


def by_size(shares: Sequence[Share]) -> list[Share]:
    """Shares by absolute size, largest first."""
    return sorted(shares, key=lambda share: -abs(share.value))


def _sentence(why: Why) -> str:
    """One or two sentences on an arrow."""
    if why.n_visible == 1:
        return (
            f"{why.head} at {why.query.token!r} sees one key, {why.key.token!r}: there is nothing to compare it with; "
            f"the score is {why.score:+.2f}."
        )
    against = RELATIVE.get(why.minus, f"key {why.minus}")
    verb = "passes over" if why.total < 0 else "rests on" if why.key.position == 0 else "reads"
    head = (
        f"{why.head} at {why.query.token!r} {verb} {why.key.token!r} (weight {why.weight:.2f}): the score is "
        f"{why.total:+.2f} above {against}"
    )
    if why.total < 0:
        head = head.replace(f"{why.total:+.2f} above", f"{-why.total:.2f} below")
    reason = _reason(why)
    return f"{head}{' ' if reason.startswith('because') else '; '}{reason}."


def _reason(why: Why) -> str:
    total = why.total
    same = [share for share in why.answered if share.value * total > 0]
    top = max(same, key=lambda share: abs(share.value), default=None)
    against = max((s for s in why.answered if s.value * total < 0), key=lambda share: abs(share.value), default=None)
    if abs(why.position_part) >= MOSTLY * abs(total) and why.position_part * total > 0:
        return (
            f"{why.position_part:+.2f} of that depends only on distance ({why.query.position - why.key.position} "
            f"back){_asked(why.asked, total)}"
        )
    if len(why.answered) == 1:
        return f"the key is {_said(why.answered[0])}, the query {_said(by_size(why.asked)[0])}"
    if top is None or abs(top.value) < ENOUGH * abs(total):
        named = "" if top is None else f", the largest contribution is {_said(top)}"
        return f"no single component explains it{named}{_asked(why.asked, total)}"
    reason = f"because {_did(top, why)}"
    if against is not None and abs(against.value) > abs(total):
        reason += f", while {_said(against)} goes against it"
    return reason + _asked(why.asked, total)


def _asked(shares: Sequence[Share], total: float) -> str:
    same = by_size([share for share in shares if share.value * total > 0])[:2]
    return "" if not same else f"; on the query side, mostly {' and '.join(_said(share) for share in same)}"


def _said(share: Share) -> str:
    return f"{share.name} {share.value:+.2f}"


def _did(share: Share, why: Why) -> str:
    """What a writer had done at the key."""
    read = share.read
    if share.kind != "head" or read is None:
        return f"of {_said(share)} there"
    if read.place.position == why.key.position - 1 and read.weight > MARKED:
        return f"{_said(share)} marked it as the token after {read.place.token!r}"
    if read.place.position == 0 and why.key.position > 1:
        return f"{_said(share)} wrote there while resting on the first token"
    return f"{_said(share)} had brought it {read.place.token!r}"


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
            "this look was read under edits, and scores are split for the model as it is; look at the text again "
            "outside `with scope.edit(…)`"
        )
    look.cache.refuse_changed_weights()
    found = look.explained if isinstance(look.explained, Explained) else Explained(look)
    look.explained = None if look.kept_pass is None else found
    return found


def why(look: Look, head: HeadName, query: int | str, key: int | str | None, minus: int | str | None) -> Why:
    """Split one arrow."""
    found = look.find(head)
    row = _place_of(look.query_tokens(found.site), query, "query")
    if key is None:
        column = int(look.weights(found, slice(row, row + 1))[0].argmax())
    else:
        column = _place_of(look.key_tokens(found.site), key, "key")
    return why_row(look, found, row, [column], minus)[0]


def why_row(
    look: Look, head: HeadName, query: int | str, keys: Sequence[int] | None, minus: int | str | None
) -> list[Why]:
    """Split several arrows of one row."""
    from headscope.heads.explain.score_split import split_row

    found = look.find(head)
    row = _place_of(look.query_tokens(found.site), query, "query")
    tokens = look.key_tokens(found.site)
    against = minus if minus is None or minus == "others" else _place_of(tokens, minus, "key")
    scores = explained(look).scores(found)
    chosen = scores.row(row).visible.tolist() if keys is None else [_place_of(tokens, key, "key") for key in keys]
    return split_row(scores, row, chosen, against, look)


def _place_of(tokens: Sequence[Token], place: int | str, what: str) -> int:
    """A position: a number, negative from the end, or a token that occurs once."""
    if isinstance(place, str):
        found = [index for index, token in enumerate(tokens) if place in (token.text, token.text.strip())]
        if len(found) != 1:
            where = f"occurs at positions {found}; give one of them" if found else "does not occur in this text"
            raise InputError(f"the {what} {place!r} {where}")
        return found[0]
    if not -len(tokens) <= place < len(tokens):
        raise InputError(f"{what} {place}: this site has {len(tokens)} of them, 0–{len(tokens) - 1}")
    return place % len(tokens)
