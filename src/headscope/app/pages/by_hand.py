"""The by hand page: models whose weights are written by hand."""

from __future__ import annotations

from pydantic import Field

from headscope.app.pages.four_heads import MadeModels, OpenedModel
from headscope.app.pages.schema import Request, Response
from headscope.lab.teach.by_hand import ROLES, HandSizes, by_hand
from headscope.lab.teach.crafted_heads import word_tokenizer

HAND_WORDS = (
    *(",", ".", "red", "blue", "green", "cat", "dog", "bird", "horse", "tree", "road", "river", "house", "door"),
    *("lamp", "stone", "saw", "met", "left", "found", "followed", "and", "then", "but", "or", "the", "a", "old"),
    *("small", "it", "was"),
)
"""The vocabulary of the models by hand: two separators, then words. Anything else is one unknown word."""

HAND_TEXTS = {"separators": "red cat , blue dog . green bird , old horse"}
HAND_TEXT = "red cat blue dog , green bird red cat blue dog , green bird"


class HandRole(Response):
    """A model whose weights are written by hand, not trained."""

    role: str
    says: str
    layers: int


class HandRequest(Request):
    """A model by hand to open in the microscope."""

    role: str = Field(max_length=40)


def hand_roles() -> list[HandRole]:
    """Every model by hand, with the first line of its docstring."""
    says = {role: (make.__doc__ or "").strip().split("\n")[0] for role, make in ROLES.items()}
    return [HandRole(role=role, says=says[role], layers=1 + (role == "induction")) for role in ROLES]


def open_by_hand(made: MadeModels, asked: HandRequest) -> OpenedModel:
    """Add a model by hand to a client's models."""
    model = by_hand(asked.role, HandSizes(vocabulary=len(HAND_WORDS) + 1))
    text = HAND_TEXTS.get(asked.role, HAND_TEXT)
    name = f"by-hand-{asked.role.replace(' ', '-')}"
    return made.open(name, model, word_tokenizer(HAND_WORDS), text)
