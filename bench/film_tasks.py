"""Record tasks in the film of a training run: loss, right answers, and each head's attention to the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from bench.marks import MARK_WEIGHT, MarkedSampler
from bench.muon import Muon
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, observing
from headscope.attention.questions import Question
from headscope.errors import InputError
from headscope.heads.film import TrainingRecorder
from headscope.heads.roles.probes.probe import one_row_question
from headscope.lab.train.training import TrainingRun, adamw


class TaskText(NamedTuple):
    """Token ids of a text, the right and a wrong next token, and the positions that hold the answer."""

    ids: Sequence[int]
    right: int
    wrong: int
    answer: Sequence[int]


@dataclass(frozen=True)
class FilmTask:
    """A behaviour: a sentence on what it is, and texts that show it."""

    sentence: str
    texts: tuple[TaskText, ...]

    def __post_init__(self) -> None:
        if not self.texts:
            raise InputError(f"a task needs at least one text: {self.sentence!r} has none")


class _TaskScores(NamedTuple):
    """Mean loss of the right token in nats, share of texts in which it beats the wrong one, attention of each head."""

    loss: float
    right: float
    attention: Float[Tensor, " head"]


@torch.no_grad()
def measure(run: Callable[[Tensor], Tensor], task: FilmTask, device: torch.device) -> _TaskScores:
    """Run a causal model on a task. Texts are padded at their ends, which no earlier row attends to."""
    ends = torch.tensor([len(text.ids) - 1 for text in task.texts], device=device)
    ids = _padded([text.ids for text in task.texts]).to(device)
    asked = one_row_question(ends.cpu(), [text.answer for text in task.texts], ids.shape[1])
    question = Question(asked.query.to(device), asked.key.to(device))
    masses: list[Tensor] = []

    def observer(call: Call) -> Tensor:
        seen = observe(call.q, call.k, call.v, scores=call.scores, questions={"answer": question}, statistics=set())
        masses.append(seen.mass["answer"][torch.arange(len(ids), device=device), :, ends].float().mean(0).cpu())
        return seen.output

    with observing(observer):
        logits = run(ids)[torch.arange(len(ids), device=device), ends].float()
    right, wrong = (torch.tensor([getattr(text, name) for text in task.texts]) for name in ("right", "wrong"))
    loss = F.cross_entropy(logits, right.to(device))
    beaten = logits.gather(1, right[:, None].to(device)) > logits.gather(1, wrong[:, None].to(device))
    return _TaskScores(float(loss), float(beaten.float().mean()), torch.cat(masses))


def _padded(rows: Sequence[Sequence[int]]) -> Int[Tensor, "row token"]:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in rows])


class TaskRecorder(TrainingRecorder):
    """Measures tasks at every point of a film too."""

    tasks: Mapping[str, FilmTask] = {}

    def film_tasks(self, tasks: Mapping[str, FilmTask]) -> None:
        """Record these from now on."""
        self.tasks = tasks
        self.film.tasks = [{"name": name, "sentence": task.sentence} for name, task in tasks.items()]

    def _record(self, step: int, loss: float, tokens_seen: int) -> None:
        super()._record(step, loss, tokens_seen)
        seen = [measure(self._run, task, self.device) for task in self.tasks.values()]
        self.film.task_loss.append(torch.tensor([each.loss for each in seen]))
        self.film.task_right.append(torch.tensor([each.right for each in seen]))
        self.film.task_attention.append(torch.stack([each.attention for each in seen], dim=1))


class TaskRun(TrainingRun):
    """A run whose film has tasks, whose blocks' matrices are updated by Muon, and in which marked tokens weigh more."""

    recorder_type, sampler_type, mark_weight = TaskRecorder, MarkedSampler, MARK_WEIGHT
    recorder: TaskRecorder
    batches: MarkedSampler

    def _weighted(self, losses: Float[Tensor, "row token"]) -> Float[Tensor, ""]:
        weights = torch.where(self.batches.marked[:, 1:], self.mark_weight, 1.0)
        return (losses * weights).sum() / weights.sum()

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        orthogonal = [weight for weight in self.model.blocks.parameters() if weight.ndim == 2]
        taken = set(map(id, orthogonal))
        rest = [weight for weight in self.model.parameters() if id(weight) not in taken]
        muon = Muon(orthogonal, lr=self.options.learning_rate, weight_decay=self.options.weight_decay)
        return [adamw(rest, self.options, fused=self.on_gpu), muon]
