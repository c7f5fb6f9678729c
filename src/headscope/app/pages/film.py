"""The film page: scores and patterns of every head over a training run, the phase change, and learned tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from headscope.app.lru import LRU
from headscope.app.pages.schema import QUESTIONS, QuestionInfo, Response
from headscope.app.wire import Arrays
from headscope.errors import InputError
from headscope.heads.film import Film, FilmPoint
from headscope.heads.questions.standard_questions import STANDARD
from headscope.lab.train.phase_change import Behaviour, Crossing, behaviours, crossings, phase_change
from headscope.scope import EMBEDDED

FULL = 65_535
FILE = "film.safetensors"
KEPT = 8  # films in memory


class FilmMoment(Response):
    """One point of the film; losses are nats per token, None where nothing was measured."""

    step: int
    tokens: int
    loss: float | None
    text_loss: float | None
    first_copy: float | None
    second_copy: float | None


class FilmSentence(Response):
    """A sentence whose patterns are in the film."""

    text: str
    tokens: list[str]


class FilmPhase(Response):
    """The phase change: the last point before induction rises and the first at which it has risen, with evidence."""

    before: int
    after: int
    evidence: list[Crossing]


class FilmResponse(Response):
    """A training run. Arrays: ``repeats``, ``text`` [point, head, question], ``entropy`` [point, head] and, for each
    sentence, ``patterns0`` … [frame, head, query, key] as 65,535 times the weight."""

    name: str
    heads: list[str]
    questions: list[QuestionInfo]
    moments: list[FilmMoment]
    sentences: list[FilmSentence]
    frames: list[int]
    phase: FilmPhase | None
    behaviours: list[Behaviour] = []


class Films:
    """The films of the models that the server was started with, then the embedded model's."""

    def __init__(self, models: Iterable[str] = ()) -> None:
        found = {_name(Path(model)): Path(model) / FILE for model in models if (Path(model) / FILE).is_file()}
        self._files = found | {EMBEDDED.name: EMBEDDED / FILE}
        self._read: LRU[str, tuple[FilmResponse, Arrays]] = LRU(KEPT)

    def names(self) -> list[str]:
        """The films of this page; it opens on the first."""
        return list(self._files)

    def film(self, name: str | None = None) -> tuple[FilmResponse, Arrays]:
        """The film of this name, or the first."""
        name = name or next(iter(self._files))
        if name not in self._files:
            raise InputError(f"there is no film {name!r} on this page; it has {', '.join(self._files)}")
        file = self._files[name]
        return self._read.cached(name, lambda: read_film(name, Film.load(file), file.with_name("tokenizer.json")))


def _name(folder: Path) -> str:
    """The name of the folder; of its parent where the model lies in a run's folder called model."""
    whole = folder.resolve()
    return whole.parent.name if whole.name == "model" else whole.name


def read_film(name: str, film: Film, tokenizer: Path) -> tuple[FilmResponse, Arrays]:
    """A film and its arrays; the tokenizer splits the sentences into tokens."""
    if not film.points:
        raise InputError(f"the film of {name} has no moments yet: its training has not begun")
    sentences = _sentences(film, tokenizer) if film.patterns else []
    questions = {question.name: question for question in QUESTIONS}
    found = FilmResponse(
        name=name,
        heads=list(film.heads),
        questions=[questions[name] for name in STANDARD],
        moments=[_moment(point) for point in film.points],
        sentences=sentences,
        frames=list(film.pattern_steps),
        phase=_phase(film),
        behaviours=behaviours(film),
    )
    arrays: Arrays = {
        name: np.stack([each.float().numpy() for each in getattr(film, name)])
        for name in ("repeats", "text", "entropy")
    }
    for number in range(len(sentences)):
        frames = np.stack([frame[number].float().numpy() for frame in film.patterns])
        arrays[f"patterns{number}"] = np.round(frames * FULL).astype(np.uint16)
    return found, arrays


def _sentences(film: Film, tokenizer: Path) -> list[FilmSentence]:
    """The sentences token by token; token ids if the tokenizer is not in the film's folder."""
    read = Tokenizer.from_file(str(tokenizer)) if tokenizer.is_file() else None
    return [
        FilmSentence(
            text=each["text"],
            tokens=[
                str(token) if read is None else read.decode([token], skip_special_tokens=False)
                for token in each["tokens"]
            ],
        )
        for each in film.sentences
    ]


def _moment(point: FilmPoint) -> FilmMoment:
    numbers = {name: getattr(point, name) for name in ("loss", "text_loss", "first_copy", "second_copy")}
    finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return FilmMoment(step=point.step, tokens=point.tokens_seen, **finite)


def _phase(film: Film) -> FilmPhase | None:
    """None where no head learns induction, as in a short run, or where its evidence was not measured."""
    try:
        before, after = phase_change(film.best("induction"))
        return FilmPhase(before=before, after=after, evidence=crossings(film))
    except InputError:
        return None
