"""Say in a sentence why a head looks where it looks. No sentence without its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headscope.heads.explain.why import Share, Why

ENOUGH = 0.4  # of the total, from which on one writer explains an arrow
MOSTLY = 0.5  # of the total, from which on the place decides
MARKED = 0.5  # weight from which on a head marked a token as the one after another
RELATIVE = {"mean": "the row's mean", "others": "the others, weighted by the pattern"}


def explain(why: Why) -> str:
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
        return f"the key is {_said(why.answered[0])}, the query {_said(by_size_first(why.asked))}"
    if top is None or abs(top.value) < ENOUGH * abs(total):
        named = "" if top is None else f", the largest contribution is {_said(top)}"
        return f"no single component explains it{named}{_asked(why.asked, total)}"
    reason = f"because {_did(top, why)}"
    if against is not None and abs(against.value) > abs(total):
        reason += f", while {_said(against)} goes against it"
    return reason + _asked(why.asked, total)


def by_size_first(shares: Sequence[Share]) -> Share:
    return max(shares, key=lambda share: abs(share.value))


def _asked(shares: Sequence[Share], total: float) -> str:
    same = sorted((s for s in shares if s.value * total > 0), key=lambda share: -abs(share.value))[:2]
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
