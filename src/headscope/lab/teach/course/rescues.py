"""What helps one head that is asked for two values at once: measured by ``bench/rescues.py``, read by a lesson."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.lab.teach.lookup_tasks import Arm
from headscope.lab.teach.one_or_many import KEYS, SOLVED

FILE = Path(__file__).with_name("rescues.json")
WIDTHS = {"wide": 32, "narrow": 8}


def arms(width: int) -> list[Arm]:
    """One head of half the width, and four ways to help it, each with about as many more parameters."""
    half = width // 2
    return [
        Arm(name="one head", n_heads=1, d_head=half),
        Arm(name="a second head", n_heads=2, d_head=half),
        Arm(name="twice as wide", n_heads=1, d_head=width),
        Arm(name="another layer", n_heads=1, d_head=half, n_layers=2),
        Arm(name="a bigger FFN", n_heads=1, d_head=half, d_ff=width),
    ]


_SAYS = {
    "one head": "The row is shared out once. It finds one of the two towns, and guesses the other.",
    "a second head": "Each head fetches one of the towns, and the two stay side by side.",
    "twice as wide": "A wider head has more numbers, but still one set of shares: one average.",
    "another layer": "The second layer asks the second question, one step later.",
    "a bigger FFN": "Every token here carries its name, so the blend still says which town is whose; a network that "
    "also knows the question can pick it apart.",
}


@dataclass(frozen=True)
class _Rescue:
    """One way to help: the accuracy of every run."""

    name: str
    accuracies: list[float]

    @property
    def mean(self) -> float:
        return sum(self.accuracies) / len(self.accuracies)

    @property
    def solved(self) -> int:
        """How many runs learned the task."""
        return sum(accuracy >= SOLVED for accuracy in self.accuracies)

    @property
    def says(self) -> str:
        return _SAYS[self.name]


@dataclass(frozen=True)
class _Rescues:
    """All of them in a model with room, and in a narrow one."""

    rows: list[_Rescue]
    narrow: list[_Rescue]
    chance: float = KEYS.chance

    def mean_narrow(self, name: str) -> float:
        """The accuracy in the narrow model."""
        return next(each.mean for each in self.narrow if each.name == name)


def rescues() -> _Rescues:
    """The results of this release."""
    stored: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    rows, narrow = ([_Rescue(name, stored[width][name]) for name in _SAYS] for width in WIDTHS)
    return _Rescues(rows, narrow)
