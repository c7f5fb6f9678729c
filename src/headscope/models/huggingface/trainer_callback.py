"""Record heads during training with transformers' Trainer: ``Trainer(…, callbacks=[FilmCallback(recorder)])``."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

POINTS = 30  # of a film that are recorded whatever they cost, denser early


@runtime_checkable
class Recorder(Protocol):
    """Records the model at the steps it chooses; see ``headscope.TrainingRecorder``."""

    def record(self, step: int, *, loss: float = ..., tokens_seen: int = ..., force: bool = ...) -> bool: ...


class FilmCallback(TrainerCallback):
    """Calls the recorder after every step; the recorder decides which steps to record."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.loss = float("nan")
        self.seen = 0
        self._wanted: set[int] = set()
        self._counting: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._wanted = {round(state.max_steps * (index / POINTS) ** 2) for index in range(POINTS)} - {state.max_steps}
        self._counting = kwargs["model"].register_forward_pre_hook(self._count, with_kwargs=True)
        self._record(state, force=True)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._record(state, force=state.global_step in self._wanted)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.loss = float((kwargs.get("logs") or {}).get("loss", self.loss))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._counting.remove()
        self._record(state, force=True)

    def _count(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count the tokens of a training pass; the Trainer does only if it is told to."""
        ids = kwargs.get("input_ids", args[0] if args else None)
        self.seen += ids.numel() if model.training and ids is not None else 0

    def _record(self, state: TrainerState, *, force: bool) -> None:
        self.recorder.record(state.global_step, loss=self.loss, tokens_seen=self.seen, force=force)
