"""A small encoder-decoder that translates phrases such as "the red car" into French, trained when it is first used.

French puts most adjectives after the noun, so its cross-attention has to cross over: *voiture* reads *car*, which
comes last, and *rouge* reads *red*, which comes before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention
from headscope.lab.teach.tiny_transformer import Adam
from headscope.models.modes import threads

NOUNS = {"car": ("voiture", "la"), "house": ("maison", "la"), "flower": ("fleur", "la"), "book": ("livre", "le"),
         "dog": ("chien", "le"), "bread": ("pain", "le")}  # fmt: skip
ADJECTIVES = {
    "red": "rouge",
    "yellow": "jaune",
    "quick": "rapide",
    "calm": "calme",
    "famous": "célèbre",
    "rare": "rare",
}
START = "·"
WIDTH, HEADS = 32, 2
STEPS = 250


@dataclass(frozen=True)
class _Translation:
    """A phrase, what the model wrote, and the cross-attention pattern of each head."""

    source: list[str]
    written: list[str]
    right: bool
    patterns: Float[Tensor, "head query key"]


class _Translator(nn.Module):
    """An encoder of one layer that reads both ways, and a decoder of one layer with self- and cross-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.english = ["the", *ADJECTIVES, *NOUNS]
        french = [*(word for word, _ in NOUNS.values()), *ADJECTIVES.values()]
        self.french = [START, "la", "le", *dict.fromkeys(french)]
        self.read, self.written = nn.Embedding(len(self.english), WIDTH), nn.Embedding(len(self.french), WIDTH)
        self.places = nn.Embedding(4, WIDTH)
        self.encoder, self.decoder, self.cross = (MultiHeadAttention(WIDTH, HEADS) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.unembedding = nn.Linear(WIDTH, len(self.french))

    def encode(self, source: Int[Tensor, "row read"]) -> Float[Tensor, "row read width"]:
        x = self.read(source) + self.places(torch.arange(source.shape[1]))
        return x + self.encoder(self.norms[0](x))  # type: ignore[no-any-return]

    def decode(
        self, target: Int[Tensor, "row written"], source: Float[Tensor, "row read width"]
    ) -> tuple[Float[Tensor, "row written french"], Float[Tensor, "row head written read"]]:
        x = self.written(target) + self.places(torch.arange(target.shape[1]))
        x = x + self.decoder(self.norms[1](x), mask=causal())
        asking, asked = self.norms[2](x), source
        x = x + self.cross(asking, asked)
        return self.unembedding(self.norms[3](x)), self.cross.patterns(asking, asked)

    def pairs(self) -> tuple[Int[Tensor, "row read"], Int[Tensor, "row written"]]:
        """Every phrase and its translation, as ids."""
        both = [(self._source(adjective, noun), self._target(adjective, noun)) for adjective, noun in phrases()]
        return torch.tensor([source for source, _ in both]), torch.tensor([target for _, target in both])

    def _source(self, adjective: str, noun: str) -> list[int]:
        return [self.english.index(word) for word in ("the", adjective, noun)]

    def _target(self, adjective: str, noun: str) -> list[int]:
        word, article = NOUNS[noun]
        return [self.french.index(each) for each in (START, article, word, ADJECTIVES[adjective])]

    @torch.no_grad()
    def translate(self, adjective: str, noun: str) -> _Translation:
        """Write the translation word by word, and keep the pattern of every step."""
        source = self.encode(torch.tensor([self._source(adjective, noun)]))
        wanted, ids = self._target(adjective, noun), [self.french.index(START)]
        for _ in range(3):
            logits, patterns = self.decode(torch.tensor([ids]), source)
            ids.append(int(logits[0, -1].argmax()))
        written = [self.french[each] for each in ids[1:]]
        return _Translation(["the", adjective, noun], written, ids == wanted, patterns[0])


def phrases() -> Iterator[tuple[str, str]]:
    """Every adjective with every noun."""
    return product(ADJECTIVES, NOUNS)


@cache
@threads(1)  # matrices this small are slower on several
def translator(seed: int = 0) -> _Translator:
    """Train the model on three quarters of the phrases; the rest it has never seen."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _Translator()
        source, target = model.pairs()
        seen = torch.arange(len(source)) % 4 != seed % 4
        adam = Adam(list(model.parameters()), 0.01)
        for _ in range(STEPS):
            logits, _ = model.decode(target[seen, :-1], model.encode(source[seen]))
            adam.descend(F.cross_entropy(logits.flatten(0, 1), target[seen, 1:].flatten()))
    return model.eval()
