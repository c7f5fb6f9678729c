"""The repeat probe: random tokens, then the same tokens again. Only a model that looks back can do the second copy.

The standard questions (previous, itself, first, duplicate, induction) are put to every head by building its pattern,
which is right for small inputs such as these. Scores are sums and counts; a mean appears when one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.observer import Call, observing, plain
from headscope.attention.questions import Question
from headscope.errors import InputError, ShapeError
from headscope.heads.questions.standard_questions import STANDARD, standard_questions

__all__ = ["STANDARD", "CopyLoss", "HeadScores", "RepeatProbe", "ask", "pattern", "probe_questions"]

Run = Callable[[Int[Tensor, "row token"]], Float[Tensor, "row token vocabulary"]]


@dataclass(frozen=True, kw_only=True)
class RepeatProbe:
    """``rows`` sequences: the start token, ``length`` different random tokens, and those tokens once more."""

    vocabulary: int
    length: int = 50
    rows: int = 8
    seed: int = 0
    start: int | None = 0
    avoid: frozenset[int] = frozenset()

    def tokens(self) -> Int[Tensor, "row token"]:
        """Equal seeds give equal tokens; the start token and those to ``avoid`` are never drawn."""
        hidden = self.avoid | ({self.start} if self.start is not None else set())
        allowed = torch.tensor([token for token in range(self.vocabulary) if token not in hidden])
        if len(allowed) < self.length:
            raise InputError(f"{self.length=} different tokens cannot be drawn from {len(allowed)} allowed ones")
        generator = torch.Generator().manual_seed(self.seed)
        draws = [allowed[torch.randperm(len(allowed), generator=generator)[: self.length]] for _ in range(self.rows)]
        once = torch.stack(draws)
        twice = torch.cat((once, once), dim=1)
        return twice if self.start is None else F.pad(twice, (1, 0), value=self.start)

    def losses(self, logits: Float[Tensor, "row token vocabulary"], tokens: Int[Tensor, "row token"]) -> CopyLoss:
        """Nats a token on each copy. The second copy's first token cannot be foreseen, so it is in neither."""
        surprise = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none")
        surprise = surprise.view(tokens.shape[0], -1)
        return CopyLoss(float(surprise[:, : -self.length].mean()), float(surprise[:, 1 - self.length :].mean()))


@dataclass(frozen=True)
class CopyLoss:
    """Mean loss on the first and on the second copy, in nats a token."""

    first: float
    second: float

    @property
    def gain(self) -> float:
        return self.first - self.second


@dataclass(frozen=True)
class HeadScores:
    """For each head, in the order in which the model called them: attention summed over the rows that could answer."""

    heads: tuple[str, ...]
    questions: tuple[str, ...]
    mass: Float[Tensor, "head question"]
    count: Int[Tensor, " question"]
    entropy: Float[Tensor, " head"]
    n_rows: int

    def mean(self, question: str) -> Float[Tensor, " head"]:
        """The mean mass of every head on this question, over the rows that have an answer."""
        column = self.questions.index(question)
        return self.mass[:, column] / self.count[column].clamp(min=1)

    def best(self, question: str) -> tuple[str, float]:
        """The head with the highest mean on this question."""
        score, head = self.mean(question).max(dim=0)
        return self.heads[int(head)], float(score)


def probe_questions(tokens: Int[Tensor, "row token"]) -> dict[str, Question]:
    """The standard questions, but the first token's own row is not asked about itself: it has no choice."""
    asked = standard_questions(tokens)
    return asked | {"first": replace(asked["first"], exclude_self=True)}


def matching(question: Question, allowed: Bool[Tensor, "query key"]) -> Bool[Tensor, "#row query key"]:
    """Where the labels are equal and one may look."""
    query, key = question.query[:, :, None], question.key[:, None, :]
    wanted = (query == key) & (query >= 0) & allowed
    if question.exclude_self:
        wanted = wanted & ~torch.eye(allowed.shape[0], dtype=torch.bool, device=allowed.device)
    return wanted


def pattern(call: Call) -> Float[Tensor, "batch head query key"]:
    """The attention weights of one call, whole."""
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    rows, columns = torch.arange(n_query, device=call.q.device), torch.arange(n_key, device=call.q.device)
    bound = call.scores.bind(call.q, call.k)
    if bound.sinks is not None:
        raise ShapeError("the probe builds patterns of models without learned sinks")
    return torch.softmax(bound.block(call.q, call.k, rows, columns, n_key - n_query), dim=-1).nan_to_num(0.0)


@torch.no_grad()
def ask(
    run: Run, tokens: Int[Tensor, "row token"], questions: Mapping[str, Question] | None = None
) -> tuple[HeadScores, Float[Tensor, "row token vocabulary"]]:
    """Run the model on causal text, put every question to every head, and hand back the logits too."""
    asked = probe_questions(tokens) if questions is None else questions
    allowed = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril()
    wanted = [matching(question, allowed).expand(tokens.shape[0], -1, -1) for question in asked.values()]
    columns = torch.stack(wanted, dim=-1).float().flatten(1, 2)
    masses: list[Tensor] = []
    entropies: list[Tensor] = []
    heads: list[str] = []

    def observer(call: Call) -> Tensor:
        weights = pattern(call)
        heads.extend(f"{len(masses)}.{head}" for head in range(weights.shape[1]))
        masses.append((weights.flatten(2).float() @ columns).sum(0))
        entropies.append(torch.special.entr(weights).sum((0, 2, 3)))
        return plain(call)

    with observing(observer):
        logits = run(tokens)
    count = torch.stack([each.any(-1).sum() for each in wanted])
    scores = HeadScores(
        tuple(heads), tuple(asked), torch.cat(masses).cpu(), count.cpu(), torch.cat(entropies).cpu(), tokens.numel()
    )
    return scores, logits
