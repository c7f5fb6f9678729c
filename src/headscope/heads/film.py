"""Record what every head does during training, at steps that are dense early and sparse later.

``TrainingRecorder(model, text=…).record(step)`` works in any loop. It measures its own time and skips steps while it
has used more than its share, so it can be left on. The film is one safetensors file with a JSON description.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from headscope.attention.engine import observe
from headscope.attention.observer import Call, observing
from headscope.checked import checked
from headscope.errors import InputError
from headscope.files import parsing, write_atomic
from headscope.heads.head_table import HeadTable, of_head
from headscope.heads.questions.head_scores import QuestionScores, head_scores
from headscope.heads.questions.standard_questions import STANDARD
from headscope.heads.roles.probes.repeat_probe import RepeatProbe, token_losses
from headscope.models.huggingface import attention
from headscope.names import Head

SCHEMA_VERSION = 1
EARLY, LATE = 50, 500
AROUND = 8


@dataclass(frozen=True, kw_only=True)
class FilmPoint:
    """The losses at one recorded training step, in nats per token."""

    step: int
    tokens_seen: int
    loss: float
    text_loss: float
    early_loss: float
    late_loss: float
    first_copy: float
    second_copy: float


NUMBERS = tuple(FilmPoint.__dataclass_fields__)
PER_HEAD = ("text", "entropy", "repeats")
PER_TASK = ("task_loss", "task_right", "task_attention")


@dataclass(repr=False)
class Film(HeadTable):
    """All recorded steps: losses, each head's mean scores on text and on repeated random tokens, patterns, tasks."""

    _column, _by = "repeats", "question"
    heads: tuple[str, ...] = ()
    points: list[FilmPoint] = field(default_factory=list)
    text: list[Float[Tensor, "head question"]] = field(default_factory=list)
    entropy: list[Float[Tensor, " head"]] = field(default_factory=list)
    repeats: list[Float[Tensor, "head question"]] = field(default_factory=list)
    sentences: list[dict[str, Any]] = field(default_factory=list)
    pattern_steps: list[int] = field(default_factory=list)
    patterns: list[list[Float[Tensor, "head query key"]]] = field(default_factory=list)
    tasks: list[dict[str, str]] = field(default_factory=list)
    task_loss: list[Float[Tensor, " task"]] = field(default_factory=list)
    task_right: list[Float[Tensor, " task"]] = field(default_factory=list)
    task_attention: list[Float[Tensor, "head task"]] = field(default_factory=list)

    def _rows(self) -> list[dict[str, Any]]:
        """A row per step, head and question: its mean score on text and on repeated random tokens."""
        return [
            {"step": point.step, **of_head(Head.parse(head)), "question": question, "text": text, "repeats": repeats}
            for point, on_text, on_repeats in zip(self.points, self.text, self.repeats, strict=True)
            for head, of_text, of_repeats in zip(self.heads, on_text.tolist(), on_repeats.tolist(), strict=True)
            for question, text, repeats in zip(STANDARD, of_text, of_repeats, strict=True)
        ]

    def _title(self) -> str:
        return f"{len(self.points)} recorded steps; scores on repeated random tokens after the last"

    def ranked_rows(self) -> list[dict[str, Any]]:
        """The rows of the last step, the largest first."""
        return [row for row in super().ranked_rows() if row["step"] == self.points[-1].step]

    def series(self, name: str) -> list[float]:
        """One field of the points over time, such as ``second_copy``."""
        return [float(getattr(point, name)) for point in self.points]

    def best(self, question: str) -> list[float]:
        """The best head's score on repeated random tokens, over time."""
        return [float(scores[:, STANDARD.index(question)].max()) for scores in self.repeats]

    def truncate(self, step: int) -> None:
        """Remove everything recorded after this step: a resumed run records it again."""
        keep = sum(point.step <= step for point in self.points)
        for name in ("points", *PER_HEAD, *PER_TASK):
            del getattr(self, name)[keep:]
        shown = sum(at <= step for at in self.pattern_steps)
        del self.pattern_steps[shown:], self.patterns[shown:]

    def save(self, file: str | Path) -> None:
        """Write the film to one file, which ``Film.load`` and the page open."""
        arrays: dict[str, Tensor] = {}
        if self.points:
            for name in NUMBERS:
                wide = torch.int64 if name in ("step", "tokens_seen") else torch.float32
                arrays[f"points.{name}"] = torch.tensor([getattr(point, name) for point in self.points], dtype=wide)
            for name in (*PER_HEAD, *(PER_TASK if self.tasks else ())):
                arrays[name] = torch.stack(getattr(self, name)).to(torch.float32).contiguous()
        for number in range(len(self.sentences) if self.patterns else 0):
            kept = [frame[number] for frame in self.patterns]
            arrays[f"patterns.{number}"] = torch.stack(kept).to(torch.float16).contiguous()
        about = {
            "schema_version": SCHEMA_VERSION,
            "heads": self.heads,
            "questions": STANDARD,
            "sentences": self.sentences,
            "pattern_steps": self.pattern_steps,
        } | ({"tasks": self.tasks} if self.tasks else {})
        write_atomic(Path(file), save(arrays, metadata={"film": json.dumps(about)}))

    @classmethod
    def load(cls, file: str | Path) -> Film:
        """Open a film that ``save`` or a recorder wrote."""
        with parsing(str(file), "record the film again"):
            with safe_open(file, framework="pt") as stored:
                about = json.loads(stored.metadata()["film"])
                arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 — not a dict
            if about["schema_version"] != SCHEMA_VERSION:
                raise InputError(
                    f"{file}: a film of schema {about['schema_version']}; this program reads {SCHEMA_VERSION}"
                )
            film = cls(tuple(about["heads"]), sentences=about["sentences"], pattern_steps=about["pattern_steps"])
            film.tasks = about.get("tasks", [])
            columns = {name: arrays[f"points.{name}"].tolist() for name in NUMBERS if f"points.{name}" in arrays}
            film.points = [
                FilmPoint(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
            ]
            for name in (*PER_HEAD, *PER_TASK):
                setattr(film, name, list(arrays[name].unbind()) if name in arrays else [])
            shown = [arrays[f"patterns.{n}"].unbind() for n in range(len(film.sentences)) if f"patterns.{n}" in arrays]
            film.patterns = [list(frame) for frame in zip(*shown, strict=True)]
            return film


def film_steps(last: int, n_points: int) -> list[int]:
    """About ``n_points`` steps from 0 to ``last``: doubling, and by a cubic, so that they are dense early."""
    doubling = [2**power for power in range(n_points // 5) if 2**power < last]
    cubic = [round(last * (index / n_points) ** 3) for index in range(n_points)]
    return sorted({*doubling, *cubic, 0, last})


@runtime_checkable
class SummaryWriter(Protocol):
    """TensorBoard's writer."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


@runtime_checkable
class Run(Protocol):
    """A run of Weights & Biases."""

    def log(self, data: dict[str, Any], step: int) -> Any: ...


@checked
class TrainingRecorder:
    """Record a film of any model whose attention headscope can observe. ``text`` is rows of held-out tokens."""

    def __init__(
        self,
        model: nn.Module,
        *,
        text: Int[Tensor, "row token"] | None = None,
        probe: RepeatProbe | None = None,
        sentences: Mapping[str, Sequence[int]] | None = None,
        file: str | Path | None = None,
        share: float = 0.02,
    ) -> None:
        self.model: nn.Module = getattr(model, "_orig_mod", model)  # a compiled graph cannot be observed
        self.file, self.share = None if file is None else Path(file), share
        self.probe = probe or _fitting_probe(self.model)
        self.device = next(model.parameters()).device
        self.text = None if text is None else text.to(self.device)
        self.repeated = self.probe.tokens().to(self.device)
        shown = sentences or {}
        self.sentences = {name: torch.tensor([list(ids)], device=self.device) for name, ids in shown.items()}
        self.film, self._logger = Film(), cast("SummaryWriter | Run | None", None)
        self.film.sentences = [{"text": name, "tokens": ids[0].tolist()} for name, ids in self.sentences.items()]
        self.next_step, self.spent, self.last_record, self.began = 0, 0.0, 0.0, time.perf_counter()

    def __repr__(self) -> str:
        return f"TrainingRecorder({len(self.film.points)} recorded steps; they are in .film)"

    def due(self, step: int) -> bool:
        """Whether to record this step: steps grow by an eighth, and take at most ``share`` of the training time."""
        allowed = self.share * (time.perf_counter() - self.began)
        return step >= self.next_step and (self.spent == 0.0 or self.spent + self.last_record <= allowed)

    def record(self, step: int, *, loss: float = float("nan"), tokens_seen: int = 0, force: bool = False) -> bool:
        """Record this step if it is due, and say whether it was recorded."""
        if not force and not self.due(step):
            return False
        start = time.perf_counter()
        with self._observable():
            self._record(step, loss, tokens_seen)
        self.next_step = step + max(1, step // 8)
        if self.file is not None:
            self.film.save(self.file)
        self.last_record = time.perf_counter() - start
        self.spent += self.last_record
        return True

    @torch.no_grad()
    def show(self, step: int) -> None:
        """Record every head's attention pattern on the sentences."""
        with self._observable():
            frame = [torch.cat(self._patterns(ids)).to("cpu", torch.float16) for ids in self.sentences.values()]
        self.film.patterns.append(frame)
        self.film.pattern_steps.append(step)

    def log_to(self, logger: SummaryWriter | Run) -> TrainingRecorder:
        """Also write the best heads' scores and the losses of each point to TensorBoard or Weights & Biases.

        ``logger`` is your own ``SummaryWriter``, or what ``wandb.init()`` returned.
        """
        self._logger = logger
        return self

    def _log(self, point: FilmPoint) -> None:
        numbers = {
            f"headscope/{name}": float(getattr(point, name)) for name in NUMBERS if name.endswith(("loss", "copy"))
        }
        numbers |= {f"headscope/best {name}": self.film.best(name)[-1] for name in STANDARD}
        numbers = {name: value for name, value in numbers.items() if value == value}  # what is not known is NaN
        if isinstance(self._logger, SummaryWriter):
            for name, value in numbers.items():
                self._logger.add_scalar(name, value, point.step)
        elif self._logger is not None:
            self._logger.log(numbers, step=point.step)

    def callback(self) -> Any:
        """Make a callback for transformers' Trainer that records its training."""
        from headscope.models.huggingface.trainer_callback import FilmCallback

        return FilmCallback(self)

    @contextmanager
    def _observable(self) -> Iterator[None]:
        """Put the model in eval mode, and a transformers model onto headscope's attention function, for the block."""
        training = self.model.training
        theirs = hasattr(getattr(self.model, "config", None), "_attn_implementation")
        self.model.eval()
        if theirs:
            attention.install(self.model)
        try:
            yield
        finally:
            if theirs:
                attention.uninstall(self.model)
            self.model.train(training)

    def _record(self, step: int, loss: float, tokens_seen: int) -> None:
        scores, logits = head_scores(self._run, self.repeated)
        copies = self.probe.losses(logits, self.repeated)
        self.film.heads = scores.heads
        self.film.repeats.append(_means(scores))
        losses = dict.fromkeys(("text_loss", "early_loss", "late_loss"), float("nan"))
        if self.text is not None:
            scores, logits = head_scores(self._run, self.text)
            losses = _in_context_loss(logits, self.text)
        losses |= {"first_copy": copies.first, "second_copy": copies.second}
        self.film.text.append(_means(scores))
        self.film.entropy.append(scores.sums["entropy"] / scores.n_rows)
        self.film.points.append(FilmPoint(step=step, tokens_seen=tokens_seen, loss=loss, **losses))
        self._log(self.film.points[-1])

    def _run(self, tokens: Int[Tensor, "row token"]) -> Float[Tensor, "row token vocabulary"]:
        out = self.model.forward(tokens)
        logits: Tensor = out if isinstance(out, Tensor) else out.logits
        return logits

    def _patterns(self, ids: Int[Tensor, "1 token"]) -> list[Float[Tensor, "head query key"]]:
        patterns: list[Tensor] = []

        def observer(call: Call) -> Tensor:
            seen = observe(call.q, call.k, call.v, scores=call.scores, statistics=frozenset())
            patterns.append(seen.weights()[0])
            return seen.output

        with observing(observer):
            self._run(ids)
        return patterns


def _in_context_loss(
    logits: Float[Tensor, "row token vocabulary"], tokens: Int[Tensor, "row token"]
) -> dict[str, float]:
    """Mean loss on the text, around its 50th and around its 500th token (its last ones, if it is shorter)."""
    loss = token_losses(logits, tokens)
    around = {"early_loss": EARLY, "late_loss": LATE}
    ends = {name: min(at + AROUND, loss.shape[1]) for name, at in around.items()}
    losses = {name: float(loss[:, max(0, end - 2 * AROUND) : end].mean()) for name, end in ends.items()}
    return {"text_loss": float(loss.mean())} | losses


def _fitting_probe(model: nn.Module) -> RepeatProbe:
    """The repeat probe, as long as the model's context and vocabulary allow."""
    config: Any = getattr(model, "config", None)
    size = getattr(config, "vocab_size", None) or getattr(config, "vocabulary", None)
    if size is None:
        raise InputError("this model's config has no vocabulary size; give probe=RepeatProbe(vocabulary=…)")
    names = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "block_size", "context")
    context = next((value for name in names if isinstance(value := getattr(config, name, None), int)), 101)
    length = min(50, (context - 1) // 2, int(size) - 1)
    if length < 2:
        raise InputError(f"a context of {context} tokens is too short to repeat a text in it")
    return RepeatProbe(vocabulary=int(size), length=length, rows=4)


def _means(scores: QuestionScores) -> Float[Tensor, "head question"]:
    return torch.stack([scores.mean(question) for question in STANDARD], dim=1)
