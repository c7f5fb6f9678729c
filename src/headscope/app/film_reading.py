"""The film as the page is told it: numbers over time, the kept patterns, and the phase change with its evidence."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np

from headscope.app.answers import QUESTIONS
from headscope.app.schema_reading import FilmCard, FilmEvidence, FilmMoment, FilmPhase, FilmSentence
from headscope.app.session import Arrays
from headscope.errors import InputError
from headscope.heads.film import Film, FilmPoint
from headscope.heads.standard import STANDARD
from headscope.lab.film_page import EMBEDDED, QUIET, RISEN, crossings, stretch
from headscope.lab.tokenizer import load_tokenizer

FULL = 65_535


@cache
def embedded_film() -> tuple[FilmCard, Arrays]:
    """The film of the model that comes with headscope."""
    return film_card(Film.load(EMBEDDED), EMBEDDED.with_name("tokenizer.json"))


def film_card(film: Film, tokenizer: Path) -> tuple[FilmCard, Arrays]:
    """A film and its arrays; the tokenizer says how the sentences were cut."""
    read = load_tokenizer(tokenizer)
    sentences = [
        FilmSentence(
            text=each["text"], tokens=[read.decode([token], skip_special_tokens=False) for token in each["tokens"]]
        )
        for each in film.sentences
    ]
    asked = {card.name: card for card in QUESTIONS}
    card = FilmCard(
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


def _moment(point: FilmPoint) -> FilmMoment:
    names = ("loss", "text_loss", "first_copy", "second_copy")
    numbers = {name: getattr(point, name) for name in names}
    return FilmMoment(
        step=point.step,
        tokens=point.tokens_seen,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
    )


def _phase(film: Film) -> FilmPhase | None:
    """None where no head learns induction: a short run has no such stretch."""
    try:
        before, after = stretch(film.best("induction"))
        found = crossings(film)
    except (InputError, ValueError):
        return None
    evidence = [
        FilmEvidence(name=each.name, start=each.start, end=each.end, before=each.before, after=each.after)
        for each in found
    ]
    return FilmPhase(before=before, after=after, quiet=QUIET, risen=RISEN, evidence=evidence)
