"""Split the scores of a look: find the head, the row and the key that were asked for, and record the stream once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headscope.errors import InputError
from headscope.heads.explain.score_split import SplitScores, split_row
from headscope.heads.explain.why import Why
from headscope.heads.look.activation_cache import BUDGET
from headscope.models.protocol import Token
from headscope.models.structure.writers import RecordedStream
from headscope.names import Head, HeadName

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

KEPT_HEADS = 4  # heads of one look whose writers' parts are kept


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
            self.check_size(head)
            kv_head = head.head // self.look.shape.sites[head.site].group_size
            made = SplitScores(self.stream, head, kv_head, self.look.source(head))
            while len(self._heads) >= KEPT_HEADS:
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
    if not isinstance(look.explained, Explained):
        look.explained = Explained(look)
    found: Explained = look.explained
    return found


def why(look: Look, head: HeadName, query: int | str, key: int | str | None, minus: int | str | None) -> Why:
    """Split one arrow."""
    found = look.shape.find(head)
    look.statistics(found.site)
    row = place_of(look.query_tokens(found.site), query, "query")
    if key is None:
        strongest = look.statistics(found.site).strongest
        assert strongest is not None
        column = int(strongest.key[0, found.head, row])
    else:
        column = place_of(look.key_tokens(found.site), key, "key")
    return why_row(look, found, row, [column], minus)[0]


def why_row(
    look: Look, head: HeadName, query: int | str, keys: Sequence[int] | None, minus: int | str | None
) -> list[Why]:
    """Split several arrows of one row."""
    found = look.shape.find(head)
    look.statistics(found.site)
    row = place_of(look.query_tokens(found.site), query, "query")
    tokens = look.key_tokens(found.site)
    against = minus if minus is None or minus == "others" else place_of(tokens, minus, "key")
    scores = explained(look).scores(found)
    chosen = scores.row(row).visible.tolist() if keys is None else [place_of(tokens, key, "key") for key in keys]
    return split_row(scores, row, chosen, against, look)


def place_of(tokens: Sequence[Token], place: int | str, what: str) -> int:
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
