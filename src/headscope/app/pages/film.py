"""The film as the page is told it: numbers over time, the kept patterns, and the phase change with its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from headscope.app.pages.head_scores import QUESTIONS
from headscope.app.pages.schema_reading import FilmCard, FilmEvidence, FilmMoment, FilmPhase, FilmSentence
from headscope.app.wire import Arrays
from headscope.errors import InputError
from headscope.heads.film import Film, FilmPoint
from headscope.heads.questions.standard_questions import STANDARD
from headscope.lab.train.phase_change import ABSENT, FORMED, crossings, phase_change
from headscope.scope import EMBEDDED

FULL = 65_535
FILE = "film.safetensors"


class Films:
    """The films a page may show: those of the models it was started with, then the embedded model's own."""

    def __init__(self, models: Iterable[str] = ()) -> None:
        found = {_called(Path(model)): Path(model) / FILE for model in models if (Path(model) / FILE).is_file()}
        self._files = found | {EMBEDDED.name: EMBEDDED / FILE}
        self._read: dict[str, tuple[FilmCard, Arrays]] = {}

    def names(self) -> list[str]:
        return list(self._files)

    def film(self, name: str | None = None) -> tuple[FilmCard, Arrays]:
        """The film of this name, or the first."""
        name = name or self.names()[0]
        if name not in self._files:
            raise InputError(f"there is no film {name!r} on this page; it has {', '.join(self._files)}")
        if name not in self._read:
            file = self._files[name]
            self._read[name] = film_card(name, Film.load(file), file.with_name("tokenizer.json"))
        return self._read[name]


def _called(folder: Path) -> str:
    """A run keeps its model in a folder called model: the run's own name says more."""
    whole = folder.resolve()
    return whole.parent.name if whole.name == "model" else whole.name


def film_card(name: str, film: Film, tokenizer: Path) -> tuple[FilmCard, Arrays]:
    """A film and its arrays; the tokenizer says how the sentences were cut."""
    if not film.points:
        raise InputError(f"the film of {name} has no moments yet: its training has not begun")
    sentences = _sentences(film, tokenizer) if film.patterns else []
    asked = {card.name: card for card in QUESTIONS}
    card = FilmCard(
        name=name,
        heads=list(film.heads),
        questions=[asked[name] for name in STANDARD],
        moments=[_moment(point) for point in film.points],
        sentences=sentences,
        frames=list(film.pattern_steps),
        phase=_phase(film),
    )
    arrays: Arrays = {
        name: np.stack([each.float().numpy() for each in getattr(film, name)])
        for name in ("repeats", "text", "entropy")
    }
    for number in range(len(sentences)):
        frames = np.stack([frame[number].float().numpy() for frame in film.patterns])
        arrays[f"patterns{number}"] = np.round(frames * FULL).astype(np.uint16)
    return card, arrays


def _sentences(film: Film, tokenizer: Path) -> list[FilmSentence]:
    """Token by token; numbers where the tokenizer is not beside the film."""
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
    names = ("loss", "text_loss", "first_copy", "second_copy")
    numbers = {name: getattr(point, name) for name in names}
    return FilmMoment(
        step=point.step,
        tokens=point.tokens_seen,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
    )


def _phase(film: Film) -> FilmPhase | None:
    """None where no head learns induction, as in a short run, or where its evidence was not measured."""
    try:
        before, after = phase_change(film.best("induction"))
        found = crossings(film)
    except InputError:
        return None
    evidence = [
        FilmEvidence(name=each.name, start=each.start, end=each.end, before=each.before, after=each.after)
        for each in found
    ]
    return FilmPhase(before=before, after=after, quiet=ABSENT, risen=FORMED, evidence=evidence)
