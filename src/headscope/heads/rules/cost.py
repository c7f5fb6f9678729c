"""What running on rules costs: the loss with some heads replaced, beside position alone, the sink and mean ablation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch

from headscope.attention.progress import report_progress
from headscope.errors import InputError
from headscope.heads.look.edits import Edit, ablate, edited
from headscope.heads.look.importance import importance
from headscope.models.protocol import OpenModel
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.rules.report import Rules

HOW = ("rules", "table", "context", "position", "first", "mean")
"""A head's rules, with a class table, in short context, position alone, the first token only, its mean z."""


@dataclass(frozen=True, kw_only=True)
class CostOptions:
    """How many heads are replaced, how often they are drawn, and how their importance is ranked."""

    shares: tuple[float, ...] = (0.25, 0.5)
    draws: int = 5
    importance: Literal["exact", "gradient"] = "exact"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.shares or not all(0 < share <= 1 for share in self.shares) or self.draws < 1:
            raise InputError(
                f"shares={self.shares}, draws={self.draws}: shares are above 0 and up to 1, draws at least 1"
            )


@dataclass(frozen=True)
class Replaced:
    """One choice of heads, and the loss (nats per token) when they are replaced in each way."""

    choice: str
    heads: tuple[str, ...]
    loss: dict[str, float]


@dataclass(frozen=True)
class Cost:
    """The loss of the whole model, and with heads replaced."""

    loss: float
    replaced: tuple[Replaced, ...]

    def recovered(self, choice: str, how: str = "rules") -> float | None:
        """The fraction of the loss by mean ablation that is not lost, over all draws; None where that loses nothing."""
        found = [each for each in self.replaced if each.choice == choice]
        if not found:
            raise InputError(f"no heads were chosen by {choice!r}; there are {', '.join(self.choices())}")
        lost, most = (sum(each.loss[kind] - self.loss for each in found) for kind in (how, "mean"))
        return 1 - lost / most if abs(most) > 1e-9 else None

    def _share(self, choice: str, how: str = "rules") -> str:
        share = self.recovered(choice, how)
        return "–" if share is None else f"{share:.2f}"

    def perplexity(self, choice: str, how: str = "rules") -> float:
        """By what factor the perplexity grows, the mean over draws in nats."""
        found = [each.loss[how] - self.loss for each in self.replaced if each.choice == choice]
        return math.exp(sum(found) / len(found))

    def choices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.choice for each in self.replaced))

    def to_dict(self) -> dict[str, Any]:
        summary = {
            choice: {
                how: {
                    "perplexity": round(self.perplexity(choice, how), 4),
                    "recovered": None if (share := self.recovered(choice, how)) is None else round(share, 4),
                }
                for how in HOW
            }
            for choice in self.choices()
        }
        return {"loss": self.loss, "summary": summary, "replaced": [asdict(each) for each in self.replaced]}

    def __repr__(self) -> str:
        lines = [
            f"  {choice}: perplexity × {self.perplexity(choice):.3f}, recovered {self._share(choice)} (with "
            f"tables {self._share(choice, 'table')}, in short context {self._share(choice, 'context')}, "
            f"position {self._share(choice, 'position')}, first token {self._share(choice, 'first')})"
            for choice in self.choices()
        ]
        return "\n".join([f"Cost(loss {self.loss:.3f} nats per token", *lines]) + ")"


def measure_cost(
    rules: Rules,
    texts: Sequence[Any],
    options: CostOptions | None = None,
    kept: MutableMapping[str, float] | None = None,
) -> Cost:
    """See ``Rules.cost``."""
    options, kept = options or CostOptions(), {} if kept is None else kept
    model = _model(rules, texts)
    inputs = [model.prepare(text).inputs for text in texts]

    def loss(name: str, edit: Callable[[], Edit | None]) -> float:
        if name not in kept:
            kept[name] = round(_loss(model, inputs, edit()), 6)
        return kept[name]

    base = loss("whole model", lambda: None)
    chosen = list(_choices(rules, model, texts, options))
    replaced = []
    for number, (choice, heads) in enumerate(chosen):
        found = {}
        for how in HOW:
            report_progress("running on rules", number * len(HOW) + HOW.index(how), len(chosen) * len(HOW))
            found[how] = loss(f"{number}: {choice}, {how}", partial(_edit, rules, heads, how))
        replaced.append(Replaced(choice, tuple(map(str, heads)), found))
    return Cost(base, tuple(replaced))


def loss_with(
    rules: Rules, texts: Sequence[Any], heads: Sequence[Head], ways: Sequence[str] = HOW
) -> tuple[float, dict[str, float]]:
    """The loss (nats per token) of the whole model, and with these heads replaced in each way."""
    model = _model(rules, texts)
    inputs = [model.prepare(text).inputs for text in texts]
    found: dict[str, float] = {}
    base = _loss(model, inputs, None)
    for how in ways:
        report_progress("running on rules", len(found) + 1, len(ways) + 1)
        found[how] = _loss(model, inputs, _edit(rules, heads, how))
    return base, found


def _model(rules: Rules, texts: Sequence[Any]) -> OpenModel:
    if rules.opened is None:
        raise InputError("running on rules needs the model; open the rules with it: open_rules(path, scope.model)")
    if not texts:
        raise InputError("the cost of rules is measured on texts; give at least one")
    return rules.opened


def _choices(
    rules: Rules, model: OpenModel, texts: Sequence[Any], options: CostOptions
) -> Iterator[tuple[str, list[Head]]]:
    """Random heads of every share, the most important and the best explained of the first share."""
    heads = [head.head for head in rules]
    for share in options.shares:
        count = max(1, round(share * len(heads)))
        for draw in range(options.draws):
            order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(options.seed + draw))
            yield f"random {share:.0%}", [heads[place] for place in order[:count].tolist()]
    count = max(1, round(options.shares[0] * len(heads)))
    ranked = [entry.head for entry in importance(model, texts, options.importance) if entry.head in set(heads)]
    yield f"most important {options.shares[0]:.0%}", ranked[:count]
    best = sorted(rules, key=lambda head: -head.explained.value)
    yield f"best explained {options.shares[0]:.0%}", [head.head for head in best[:count]]


def _edit(rules: Rules, heads: Sequence[Head], how: str) -> Edit:
    from headscope.heads.rules.follow import follow

    return ablate(*heads, how="mean") if how == "mean" else follow(rules, heads, how)


@torch.no_grad()
def _loss(model: OpenModel, inputs: Sequence[Any], edit: Edit | None) -> float:
    """Nats per token over all texts."""
    observer = None if edit is None else edited([edit.bind(model)])
    total, count = 0.0, 0
    for each in inputs:
        logits = model.run(each, observer).logits[0, :-1].float()
        target = each["input_ids"][0, 1:].to(logits.device)
        total += float(torch.nn.functional.cross_entropy(logits, target, reduction="sum"))
        count += len(target)
    return total / count
