"""Record heads during training with transformers' Trainer: ``Trainer(…, callbacks=[FilmCallback(recorder)])``."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


@runtime_checkable
class Recorder(Protocol):
    """Records the model at the steps it chooses; see ``headscope.TrainingRecorder``."""

    def record(self, step: int, *, loss: float = ..., tokens_seen: int = ..., force: bool = ...) -> bool: ...


class FilmCallback(TrainerCallback):
    """Calls the recorder after every step; the recorder decides which steps to record."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.loss = float("nan")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._record(state, force=True)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._record(state, force=False)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.loss = float((kwargs.get("logs") or {}).get("loss", self.loss))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._record(state, force=True)

    def _record(self, state: TrainerState, *, force: bool) -> None:
        seen = int(state.num_input_tokens_seen or 0)
        self.recorder.record(state.global_step, loss=self.loss, tokens_seen=seen, force=force)
