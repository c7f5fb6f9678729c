"""The standard questions: to a text's own tokens, to cross-attention, and the query rows that can answer one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.masks import Mask, Window
from headscope.attention.questions import Question
from headscope.models.protocol import Token

if TYPE_CHECKING:
    from headscope.heads.look.look import Look


STANDARD = ("previous", "itself", "first", "duplicate", "induction")


def standard_questions(
    tokens: Int[Tensor, "batch position"], real: Bool[Tensor, "batch position"] | None = None
) -> dict[str, Question]:
    """Previous token, itself, first token, an earlier copy of this token, and what followed an earlier copy.

    Padding (where ``real`` is False) is labelled −1, so it matches nothing; *first* is the first real token.
    """
    batch, length = tokens.shape
    position = torch.arange(length, device=tokens.device).expand(batch, -1)
    if real is None:
        real = torch.ones_like(tokens, dtype=torch.bool)
    key = position.where(real, -1)
    first = real.int().argmax(dim=1, keepdim=True).expand(-1, length)
    token = tokens.where(real, -1)
    before = torch.roll(token, 1, dims=1)
    before[:, 0] = -1
    return {
        "previous": Question((position - 1).where(real, -1), key),
        "itself": Question(key, key),
        "first": Question(first.where(real, -1), key),
        "duplicate": Question(token, token, exclude_self=True),
        "induction": Question(token, before.where(real, -1), exclude_self=True),
    }


class VisibleKeys(NamedTuple):
    """Which keys the queries of a site may attend to: all of them or those up to the query, and how far away."""

    causal: bool
    window: int | None = None
    """Only keys less than this many positions away; None where no key is too far away."""

    @classmethod
    def of(cls, causal: bool, mask: Mask, n_key: int) -> VisibleKeys:
        """Describe a site under a mask. A window as wide as the text hides nothing."""
        widths = [part.width for part in mask.parts if isinstance(part, Window) and part.width < n_key]
        return cls(causal, min(widths, default=None))

    def bounds(self, own: Int[Tensor, " query"], n_key: int) -> tuple[Int[Tensor, " query"], Int[Tensor, " query"]]:
        """The first visible key, and the one behind the last, of queries at these positions."""
        first, end = torch.zeros_like(own), torch.full_like(own, n_key)
        if self.window is not None:
            first, end = own - self.window + 1, own + self.window
        if self.causal:
            end = own + 1
        return first.clamp(min=0, max=n_key), end.clamp(min=0, max=n_key)


@dataclass(frozen=True)
class MatchingKeys:
    """Keys sorted by label, then position, among which each query finds those that carry its label."""

    ordered: Int[Tensor, "*batch key"]
    """Each key as its label times the number of keys, plus its position."""
    wanted: Int[Tensor, "*batch query"]
    """What the first key with each query's label would be in ``ordered``."""
    excluded: Int[Tensor, "*batch query"]
    """1 where the query's own key carries its label and does not count."""
    asks: Bool[Tensor, "*batch query"]

    def visible(self, keys: VisibleKeys) -> Int[Tensor, "*batch query"]:
        """How many of the keys that a query may attend to carry its label."""
        n_query, n_key = self.wanted.shape[-1], self.ordered.shape[-1]
        own = torch.arange(n_key - n_query, n_key, device=self.wanted.device)
        first, end = (torch.searchsorted(self.ordered, self.wanted + bound) for bound in keys.bounds(own, n_key))
        return (end - first - self.excluded) * self.asks


def matching_keys(question: Question) -> MatchingKeys:
    """Find the keys that match each query of a question. Its labels are read, which waits for a GPU."""
    batch, device = max(len(question.query), len(question.key)), question.query.device
    query, key = question.query.expand(batch, -1), question.key.to(device).expand(batch, -1)
    return match(query, key, int(question.exclude_self))


def match(
    query: Int[Tensor, "*batch query"],
    key: Int[Tensor, "*batch key"],
    exclude_self: int | Int[Tensor, "*#batch 1"],
    largest: int | None = None,
) -> MatchingKeys:
    """Sort the keys by label, then position: matching ones are counted by binary search, and no pair is made.

    The last query stands at the last key. Label −1 matches nothing; ``exclude_self`` leaves out the query's own key.
    ``largest`` bounds the labels, which are then at least −1; without it they are read, which waits for a GPU.
    """
    n_query, n_key, device = query.shape[-1], key.shape[-1], query.device
    asks, labels = query != -1, torch.cat((query, key), dim=-1).long()
    low, high = _bounds(labels) if largest is None else (-1, largest)
    fits = low >= -1 and (high + 2) * n_key < 2**62
    ranks = labels + 1 if fits else torch.unique(labels, return_inverse=True)[1]  # labels that could overflow
    query, key = ranks.mul(n_key).split((n_query, n_key), dim=-1)
    ordered = (key + torch.arange(n_key, device=device)).sort(dim=-1).values
    own = torch.arange(n_key - n_query, n_key, device=device)
    itself = ((key[..., own.clamp(min=0)] == query) & (own >= 0)) * exclude_self
    return MatchingKeys(ordered, query.contiguous(), itself, asks)


def _bounds(labels: Int[Tensor, "batch position"]) -> tuple[int, int]:
    if not labels.numel():
        return 0, 0
    low, high = torch.aminmax(labels)
    return int(low), int(high)


def answerable(question: Question, keys: VisibleKeys) -> Bool[Tensor, "batch query"]:
    """The query rows that can answer a question: some key they may attend to carries their label.

    The first row of causal self-attention attends to one key whatever the head does, so it is left out.
    """
    found = matching_keys(question).visible(keys) > 0
    if keys.causal and question.key.shape[1] == question.query.shape[1]:
        found[:, 0] = False
    return found


Sides = tuple[tuple[Token, ...], tuple[Token, ...]]
"""The tokens of queries and of keys; the same tuple twice in self-attention."""

ABOUT_PLACES = ("previous", "itself", "first")
MOST_PARTS = 16
"""Parts that both sides are divided into for the diagonal, where they have so many positions."""


def are_words(tokens: Sequence[Token]) -> bool:
    """Whether these are tokens of a vocabulary; patches and moments have only a position."""
    return all(token.id >= 0 for token in tokens)


def questions_between(sides: Sides, device: torch.device) -> dict[str, Question]:
    """The standard questions within one text, or those from one sequence to another."""
    query, key = (torch.tensor([token.id for token in side], device=device) for side in sides)
    words = all(any(token.id >= 0 for token in side) for side in sides)  # a patch among them matches no token
    if sides[0] is not sides[1]:
        return _cross_questions(query, key, words=words)
    return {name: q for name, q in standard_questions(query[None]).items() if words or name in ABOUT_PLACES}


def _cross_questions(query: Int[Tensor, " query"], key: Int[Tensor, " key"], *, words: bool) -> dict[str, Question]:
    """The mass on the first key; on the same part of the other side (*diagonal*); on the same token, between words.

    The diagonal divides both sides into equally many parts, at most sixteen; two positions on each side make the least.
    """
    n_query, n_key = len(query), len(key)
    place, other = torch.arange(n_query, device=query.device), torch.arange(n_key, device=query.device)
    asked = {"first": Question(torch.zeros_like(place), other)}
    parts = min(n_query, n_key, MOST_PARTS)
    if parts > 1:
        asked["diagonal"] = Question(place * parts // n_query, other * parts // n_key)
    if words:
        asked["same token"] = Question(query, key)
    return asked


def monotone_share(strongest: Int[Tensor, "head query"]) -> Float[Tensor, " head"] | None:
    """How often each head's strongest key is not before the strongest key of the query before; None for one query."""
    if strongest.shape[1] < 2:
        return None
    return (strongest[:, 1:] >= strongest[:, :-1]).float().mean(-1)


Answers = dict[str, Float[Tensor, " head"]]
Weights = Float[Tensor, "question row"]


class StandardAnswers:
    """Questions and mean answers of a look. Sides are known by identity: hashing a text's tokens takes longer.

    The look is an argument: kept here it would be in a cycle, and its tensors would wait for the garbage collector.
    """

    def __init__(self) -> None:
        self._questions: dict[tuple[int, int, torch.device], tuple[Sides, dict[str, Question]]] = {}
        self._weights: dict[tuple[int, int, VisibleKeys, torch.device], tuple[list[str], Weights]] = {}
        self._means: dict[str, Answers] = {}

    def questions(self, sides: Sides | None, sizes: tuple[int, int], device: torch.device) -> dict[str, Question]:
        """The standard questions where queries and keys are this text's tokens, or two texts; none elsewhere."""
        return {} if sides is None or sizes != tuple(map(len, sides)) else self._between(sides, device)

    def means(self, look: Look, site: str) -> Answers:
        """Mean mass per head on every question, over the rows that can answer it; absent if no row can."""
        if site not in self._means:
            self._answer_like(look, site)
        return dict(self._means[site])

    def _between(self, sides: Sides, device: torch.device) -> dict[str, Question]:
        key = (id(sides[0]), id(sides[1]), device)
        if key not in self._questions:  # the same labels for every layer; keeping the sides keeps their identity
            self._questions[key] = (sides, questions_between(sides, device))
        return self._questions[key][1]

    def _answer_like(self, look: Look, site: str) -> None:
        """Answer for a site, and for all others with the same sides and shapes."""
        sides, masses = look.sides(site), look.statistics(site).mass
        together = list(_like(look, site, sides))
        means: list[Answers] = [{} for _ in together]
        if sides is not None and masses:
            device = next(iter(masses.values())).device
            names, weights = self._rows_asked(sides, look.visible_keys(site), device)
            if names:
                found = [look.statistics(other).mass[name][0] for name in names for other in together]
                stacked = torch.stack(found).view(len(names), len(together), *found[0].shape)
                for name, answers in zip(names, (stacked * weights[:, None, None]).sum(-1), strict=True):
                    for each, mean in zip(means, answers.unbind(), strict=True):
                        each[name] = mean
        for other, each in zip(together, means, strict=True):
            self._means[other] = each | _monotone(look, other)

    def _rows_asked(self, sides: Sides, keys: VisibleKeys, device: torch.device) -> tuple[list[str], Weights]:
        """The questions that some row can answer, and the weight of each row in their means. Counted on the CPU."""
        key = (id(sides[0]), id(sides[1]), keys, device)
        if key not in self._weights:
            asked = self._between(sides, torch.device("cpu"))
            rows = {name: answerable(question, keys)[0].float() for name, question in asked.items()}
            rows = {name: found / found.sum() for name, found in rows.items() if found.any()}
            weights = torch.stack(list(rows.values())) if rows else torch.zeros(0, len(sides[0]))
            self._weights[key] = (list(rows), weights.to(device, non_blocking=True))
        return self._weights[key]


def _like(look: Look, site: str, sides: Sides | None) -> Iterator[str]:
    shapes, keys = _shapes(look, site), look.visible_keys(site)
    for other in look.sites:
        same = look.sides(other)
        alike = same is sides if same is None or sides is None else same[0] is sides[0] and same[1] is sides[1]
        if alike and _shapes(look, other) == shapes and look.visible_keys(other) == keys:
            yield other


def _shapes(look: Look, site: str) -> dict[str, tuple[torch.Size, torch.device]]:
    return {name: (mass.shape, mass.device) for name, mass in look.statistics(site).mass.items()}


def _monotone(look: Look, site: str) -> Answers:
    """In cross-attention, the share of rows that attend no further back than the row before."""
    strongest = look.statistics(site).strongest
    if look.shape.sites[site].kind != "cross" or strongest is None:
        return {}
    share = monotone_share(strongest.key[0])
    return {} if share is None else {"monotone": share}
