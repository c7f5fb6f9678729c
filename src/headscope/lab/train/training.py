"""Train a small GPT on text files, with checkpoints and a film of its heads.

    train([TextFile(Path("book.txt"))], Path("runs/book"), TrainingOptions(d_model=128, n_heads=4))

A run that was killed or stopped resumes from its last checkpoint when called again with the same arguments. On a CPU,
in float32, it ends with the same bytes of weights and film if machine, threads and PyTorch are the same; on a GPU, in
bfloat16 through torch.compile, the last digits vary.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from headscope.attention.progress import report_progress, showing
from headscope.errors import InputError
from headscope.files import sole_writer, write_atomic
from headscope.heads.film import Film, TrainingRecorder, film_steps
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.lab.train.batches import BatchSampler
from headscope.lab.train.gpt import GPT
from headscope.lab.train.llama_folder import save_folder
from headscope.lab.train.options import TrainingOptions
from headscope.lab.train.text_files import TextFile, TrainingData, prepare, recipe


def adamw(weights: Iterable[nn.Parameter], options: TrainingOptions, *, fused: bool) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices only."""
    every = list(weights)
    matrices, gains = ([each for each in every if (each.ndim >= 2) is wide] for wide in (True, False))
    groups = [{"params": matrices, "weight_decay": options.weight_decay}, {"params": gains, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95), fused=fused)


MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: its step, its recipe, and all tensors needed to resume."""

    step: int
    recipe: dict[str, Any]
    tensors: dict[str, Tensor]


def capture(model: nn.Module, *optimizers: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Collect weights and optimizer moments by weight name."""
    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"weight.{name}"] = weight.detach().cpu().contiguous()
        state = _owner(weight, optimizers).state[weight]
        for moment in MOMENTS:
            if moment in state:
                tensors[f"{moment}.{name}"] = state[moment].cpu().contiguous()
    return tensors


@torch.no_grad()
def restore(checkpoint: Checkpoint, model: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
    """Load weights and optimizer state, so that training continues exactly."""
    for name, weight in model.named_parameters():
        weight.copy_(checkpoint.tensors[f"weight.{name}"])
        kept = [moment for moment in MOMENTS if f"{moment}.{name}" in checkpoint.tensors]
        optimizer = _owner(weight, optimizers)
        state = optimizer.state[weight] if kept else {}
        for moment in kept:
            state[moment] = checkpoint.tensors[f"{moment}.{name}"].to(weight.device)
        if "exp_avg" in kept:
            where = weight.device if optimizer.defaults.get("fused") else "cpu"
            state["step"] = torch.tensor(float(checkpoint.step), device=where)


def _owner(weight: Tensor, optimizers: Sequence[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """The optimizer that updates this weight."""
    return next(
        optimizer
        for optimizer in optimizers
        if any(weight is each for group in optimizer.param_groups for each in group["params"])
    )


def write_checkpoint(file: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint; the old one stays if writing fails."""
    about = {"step": str(checkpoint.step), "recipe": json.dumps(checkpoint.recipe, sort_keys=True)}
    write_atomic(file, save(checkpoint.tensors, metadata=about))


def read_checkpoint(file: Path) -> Checkpoint:
    try:
        with safe_open(file, framework="pt") as stored:
            about = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 — not a dict
        return Checkpoint(int(about["step"]), json.loads(about["recipe"]), tensors)
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{file} is not a checkpoint of a training run: {problem}; give another --out") from problem


SENTENCES = (
    "The horse crossed the road because it was tired, and the horse stopped.",
    "When Mary and John went to the shop, John gave a book to Mary.",
)
FILM_ROWS, FILM_WIDTH, LEAST_HELD_OUT = 8, 513, 64
FRAMES = (0.0, 0.015, 0.025, 0.03, 0.05, 0.15, 0.5, 1.0)


@dataclass(frozen=True)
class Trained:
    """The result of a run: whether it finished, the model, its folder and the film."""

    finished: bool
    step: int
    model: GPT
    folder: Path
    film: Film = field(repr=False)


@showing()
def train(texts: Sequence[TextFile], out: Path, options: TrainingOptions | None = None) -> Trained:
    """Train a model in the folder ``out``, or resume the run that is there."""
    options = options or TrainingOptions()
    with sole_writer(out, f"another run is training into {out}; wait for it, or choose another folder"):
        run = TrainingRun(prepare(texts, options, out), out, options)
        with _stop_on_ctrl_c() as stopped:
            run.loop(stopped)
    return Trained(run.step == options.total_steps, run.step, run.model, run.folder, run.recorder.film)


class TrainingRun:
    """One training run: the model, its optimizer, batches, film, and current step."""

    recorder_type, sampler_type = TrainingRecorder, BatchSampler

    def __init__(self, data: TrainingData, out: Path, options: TrainingOptions) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.options, self.out, self.data = options, out, data
        self.device = _device(options.device)
        self.on_gpu = self.device.type == "cuda"
        vocabulary = data.tokenizer.get_vocab_size()
        self.model = GPT(options.gpt(vocabulary), seed=options.seed).to(self.device)
        self.optimizers = self._optimizers()
        streams = [stream.to(self.device) for stream in data.streams]
        self.batches = self.sampler_type(streams, vocabulary, repeats=options.repeats, seed=options.seed)
        self.recorder = self._recorder(vocabulary)
        self.recipe = recipe(options, data)
        self.step = 0
        self.loss = torch.full((), float("nan"))  # of the last step
        self.file, self.folder = out / "checkpoint.safetensors", out / "model"
        if self.file.exists():
            self._resume()

    def loop(self, stopped: threading.Event) -> None:
        """Train until the last step or until ``stopped`` is set, then save."""
        options = self.options
        points = set(film_steps(options.total_steps, options.film_points))
        frames = {round(share * options.total_steps) for share in FRAMES}
        forward = torch.compile(self.model.loss, dynamic=False) if self.on_gpu else self.model.loss
        saved = time.monotonic()
        while True:
            if self.step in points:
                self.recorder.record(
                    self.step, loss=float(self.loss), tokens_seen=options.tokens(self.step), force=True
                )
            if self.step in frames:
                self.recorder.show(self.step)
            if self.step >= options.total_steps or stopped.is_set():
                break
            self.loss = self._advance(forward)
            if self.step % 20 == 0:
                report_progress(f"training, loss {float(self.loss):.3f}", self.step, options.total_steps)
            if time.monotonic() - saved > options.checkpoint_seconds:
                self.save()
                saved = time.monotonic()
        self.save()

    def save(self) -> None:
        """Save the model's folder, the film, then the checkpoint, so that the film is never behind it."""
        self._check_finite()
        save_folder(self.model, self.data.tokenizer, self.folder)
        self.recorder.film.save(self.folder / "film.safetensors")
        tensors = capture(self.model, *self.optimizers) | {"loss": self.loss.cpu()}
        write_checkpoint(self.file, Checkpoint(self.step, self.recipe, tensors))

    def _weighted(self, losses: Float[Tensor, "row token"]) -> Float[Tensor, ""]:
        """The loss whose gradient is followed."""
        return losses.mean()

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        return [adamw(self.model.parameters(), self.options, fused=self.on_gpu)]

    def _advance(self, forward: Callable[[Tensor], Tensor]) -> Float[Tensor, ""]:
        """Take one optimizer step."""
        n_rows, context = self.options.stage(self.step)
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["lr"] = self.options.rate(self.step)
        self.model.train()
        precision = torch.autocast("cuda", torch.bfloat16) if self.on_gpu else nullcontext()
        rows = self.batches.batch(self.step, n_rows, context)
        with precision:
            losses = forward(rows)
        self._weighted(losses).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return losses.detach().mean()

    def _recorder(self, vocabulary: int) -> TrainingRecorder:
        held_out = self.data.held_out
        tokens = held_out if len(held_out) >= LEAST_HELD_OUT else self.data.streams[0].tokens
        width = min(FILM_WIDTH, len(tokens))
        begins = torch.linspace(0, len(tokens) - width, FILM_ROWS).long()
        text = tokens[begins[:, None] + torch.arange(width)].long()
        text[:, 0] = 0
        probe = RepeatProbe(vocabulary=vocabulary, length=min(50, vocabulary // 4))
        sentences = {text: self.data.tokenizer.encode(text).ids for text in SENTENCES}
        return self.recorder_type(self.model, text=text, probe=probe, sentences=sentences)

    def _resume(self) -> None:
        found = read_checkpoint(self.file)
        for name in sorted(self.recipe.keys() | found.recipe.keys()):
            there, here = found.recipe.get(name), self.recipe.get(name)
            if there != here:
                raise InputError(
                    f"{self.file} is a checkpoint of another run: {name} is {there!r} there and {here!r} here; "
                    "use the old settings, or choose another folder"
                )
        restore(found, self.model, *self.optimizers)
        self.step, self.loss = found.step, found.tensors.get("loss", self.loss)
        self._resume_film()

    def _resume_film(self) -> None:
        """Load the film up to the checkpoint's step."""
        file = self.folder / "film.safetensors"
        if not file.exists():
            raise InputError(
                f"{file}, the film of the first {self.step} steps, is missing and the resumed film would begin at its "
                f"middle; put it back, or remove {self.file.name} to begin again"
            )
        film = Film.load(file)
        film.truncate(self.step - 1)
        self.recorder.film = film

    def _check_finite(self) -> None:
        """Refuse to save weights that are not numbers over those of the last checkpoint."""
        bad = next((name for name, weight in self.model.named_parameters() if not weight.isfinite().all()), None)
        if bad is not None:
            kept = f"; the checkpoint of step {read_checkpoint(self.file).step} is kept" if self.file.exists() else ""
            raise InputError(
                f"training diverged before step {self.step}: {bad} has values that are NaN or infinite{kept}. "
                "Use a lower learning rate"
            )


@contextmanager
def _stop_on_ctrl_c() -> Iterator[threading.Event]:
    """Set an event at the first Ctrl-C, so that the loop ends after its step; a second one interrupts."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.zeros(0, device=name).device
    except (RuntimeError, AssertionError) as problem:
        raise InputError(f"there is no device {name!r} here ({problem}); use auto, or cpu") from problem
