"""Models made at the page's own desk: four heads trained to a person's targets, and heads written by hand."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from headscope.app.model_registry import Shelf
from headscope.app.pages import schema_lab as lab
from headscope.app.wire import Arrays, numbers
from headscope.lab.teach.by_hand import ROLES, HandSizes, by_hand
from headscope.lab.teach.crafted_heads import Crafted, craft, word_tokenizer
from headscope.lab.teach.fit_heads import CraftSettings, Snapshot
from headscope.lab.teach.target_patterns import (
    SENTENCE,
    Target,
    default_targets,
    made_sentence,
    parse_shares,
    previous_token,
    split_words,
)
from headscope.models.native import NativeModel
from headscope.scope import Scope

KEPT_CRAFTED = 16  # finished heads, so that opening them in the microscope does not train them again

Tell = Callable[[BaseModel, Arrays], None]

HAND_WORDS = (
    *(",", ".", "red", "blue", "green", "cat", "dog", "bird", "horse", "tree", "road", "river", "house", "door"),
    *("lamp", "stone", "saw", "met", "left", "found", "followed", "and", "then", "but", "or", "the", "a", "old"),
    *("small", "it", "was"),
)
"""What the models by hand can read: two separators, then words. Anything else is one unknown word."""

HAND_TEXTS = {"separators": "red cat , blue dog . green bird , old horse"}
HAND_TEXT = "red cat blue dog , green bird red cat blue dog , green bird"


class Workbench:
    """Makes models while a person watches, and puts them on the shelf when they want to look inside."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._crafted: OrderedDict[str, Crafted] = OrderedDict()
        self._lock = threading.Lock()

    def sentence(self, asked: lab.SentenceRequest) -> lab.SentenceCard:
        """A sentence and its words. Where nobody has said what its heads should do, they look one word back."""
        if asked.sentence is None:
            sentence, targets = (SENTENCE, default_targets()) if asked.seed is None else made_sentence(asked.seed)
        else:
            sentence, targets = asked.sentence, []
        words = split_words(sentence)
        if list(words) == split_words(SENTENCE):
            targets = default_targets()
        cards = [_target_card(target) for target in targets or [previous_token(words)]]
        return lab.SentenceCard(sentence=sentence, words=words, targets=cards)

    def arrows(self, asked: lab.ArrowsRequest) -> lab.ArrowsCard:
        arrows, shares = parse_shares(asked.text, split_words(asked.sentence))
        return lab.ArrowsCard(arrows=list(arrows), shares=list(shares))

    def craft(self, asked: lab.CraftRequest, tell: Tell) -> None:
        """Train one head to each target, and tell of it as it happens."""
        words, targets, settings = _job(asked)
        rows = [target.rows(words, causal=True) for target in targets]
        wanted, finds = (torch.stack([row[part] for row in rows]) for part in (0, 1))
        begun = lab.CraftBegun(words=words, steps=asked.steps)
        tell(begun, {"wanted": numbers(wanted), "finds": finds.to(torch.uint8).numpy()})

        def told(snapshot: Snapshot) -> None:
            card = lab.CraftStep(step=snapshot.step, loss=snapshot.loss, hit=snapshot.hit)
            tell(card, {"patterns": numbers(snapshot.patterns)})

        crafted = craft(asked.sentence, targets, settings, told)
        self._keep(_key(asked), crafted)
        tell(*_done(crafted))

    def open_crafted(self, asked: lab.CraftRequest) -> lab.OpenedCard:
        """Put these heads on the shelf. Equal requests give equal heads, so a name always means the same model."""
        key = _key(asked)
        with self._lock:
            crafted = self._crafted.get(key)
        if crafted is None:
            _, targets, settings = _job(asked)
            crafted = self._keep(key, craft(asked.sentence, targets, settings))
        return self._open(f"four-heads-{key}", crafted.model, crafted.tokenizer, asked.sentence)

    def hand_roles(self) -> lab.HandRoles:
        roles = []
        for role, make in ROLES.items():
            says = (make.__doc__ or "").strip().split("\n")[0]
            roles.append(lab.HandRole(role=role, says=says, layers=2 if role == "induction" else 1))
        return lab.HandRoles(roles=roles)

    def open_by_hand(self, asked: lab.HandRequest) -> lab.OpenedCard:
        model = by_hand(asked.role, HandSizes(vocabulary=len(HAND_WORDS) + 1))
        text = HAND_TEXTS.get(asked.role, HAND_TEXT)
        return self._open(f"by-hand-{asked.role.replace(' ', '-')}", model, word_tokenizer(HAND_WORDS), text)

    def _open(self, name: str, model: nn.Module, tokenizer: object, text: str) -> lab.OpenedCard:
        if name not in self.shelf.names():
            self.shelf.put(name, Scope(NativeModel(model, tokenizer, name)))
        return lab.OpenedCard(model=name, text=text)

    def _keep(self, key: str, crafted: Crafted) -> Crafted:
        with self._lock:
            self._crafted[key] = crafted
            self._crafted.move_to_end(key)
            while len(self._crafted) > KEPT_CRAFTED:
                self._crafted.popitem(last=False)
        return crafted


def _job(asked: lab.CraftRequest) -> tuple[list[str], list[Target], CraftSettings]:
    targets = [Target(each.name, each.asks, tuple(each.arrows), shares=tuple(each.shares)) for each in asked.targets]
    settings = CraftSettings(d_head=asked.d_head, steps=asked.steps, seed=asked.seed, positions=asked.places)
    return split_words(asked.sentence), targets, settings


def _key(asked: lab.CraftRequest) -> str:
    return hashlib.sha256(asked.model_dump_json().encode()).hexdigest()[:8]


def _target_card(target: Target) -> lab.TargetCard:
    return lab.TargetCard(name=target.name, asks=target.asks, arrows=list(target.arrows), shares=list(target.shares))


def _done(crafted: Crafted) -> tuple[lab.CraftDone, Arrays]:
    """How close each head came, and every word's way through the layer."""
    traces = [crafted.trace(position) for position in range(len(crafted.words))]
    attention = crafted.model.attention()
    with torch.no_grad():
        values = attention.project(crafted.model.embed(crafted.ids))[2][0]
    arrays: Mapping[str, Tensor] = {
        "losses": crafted.losses,
        "values": values,
        "delivered": torch.stack([trace.z for trace in traces]),
        "parts": torch.stack([trace.parts for trace in traces]),
        "output": torch.stack([trace.output for trace in traces]),
    }
    heads = [
        lab.HeadCard(
            name=head.name,
            asks=head.asks,
            hit=head.hit,
            misses=[lab.RowCard(word=row.word, place=row.position, hit=row.hit, why=row.why) for row in head.misses],
        )
        for head in crafted.heads
    ]
    card = lab.CraftDone(heads=heads, d_model=crafted.settings.d_model, d_head=crafted.settings.d_head)
    return card, {name: numbers(array) for name, array in arrays.items()}
