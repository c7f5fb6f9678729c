"""Heads that the Four heads page has trained, as an ordinary model.

The page trains W_Q and W_K of each head towards its target. Here W_V, W_O and the unembedding learn to predict the
attended words, so that a token can be followed from the attention weights through the concatenation to the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from headscope.lab.teach.tiny_transformer import Adam, TinyBlock, TinyConfig, TinyTransformer
from headscope.models.modes import threads

STEPS, LEARNING_RATE = 120, 0.005
UNKNOWN = "<?>"


@dataclass(frozen=True)
class CraftedHeads:
    """A sentence and what was trained on it: embeddings, W_Q, W_K, and which rows of each head have a target."""

    words: list[str]
    has_target: Bool[Tensor, "head query"]
    tokens: Float[Tensor, "vocabulary d_model"]
    places: Float[Tensor, "token d_model"]
    w_q: Float[Tensor, "wide d_model"]
    w_k: Float[Tensor, "wide d_model"]

    @property
    def ids(self) -> Int[Tensor, "1 token"]:
        """Token ids by first appearance, from 1; equal words have equal ids, and 0 is the unknown word."""
        return torch.tensor([[_vocabulary(self.words)[word] for word in self.words]])

    @threads(1)  # matrices this small are slower on several
    def model(self) -> TinyTransformer:
        """Build the model, and train what the page has not."""
        n_heads, (n_tokens, d_model) = len(self.has_target), self.tokens.shape
        model = TinyTransformer(
            TinyConfig(
                vocabulary=n_tokens,
                context=len(self.words),
                d_model=d_model,
                n_heads=n_heads,
                d_head=len(self.w_q) // n_heads,
                residual=False,
            )
        )
        model.initialise(0)
        attention, block = model.attention(), model.blocks[0]
        assert isinstance(block, TinyBlock)
        with torch.no_grad():
            model.embedding.weight.copy_(self.tokens)
            model.positions.weight.copy_(self.places)
            attention.q_proj.weight.copy_(self.w_q)
            attention.k_proj.weight.copy_(self.w_k)
            x = model.embed(self.ids)
            weights = attention.patterns(x, mask=block.mask)[0]
        answers = self.answers(weights)
        learned = (attention.v_proj.weight, attention.o_proj.weight, model.unembedding.weight)
        adam = Adam(learned, LEARNING_RATE)
        for _ in range(STEPS):
            z = weights @ attention.project(x)[2][0]
            logits = model.unembedding(attention.o_proj(z.transpose(0, 1).flatten(1)))
            adam.descend(F.cross_entropy(logits, answers))
        return model.eval()

    def answers(self, weights: Float[Tensor, "head query key"]) -> Float[Tensor, "query vocabulary"]:
        """The prediction to learn at each word: the words that the heads with a target there attend to."""
        without = 1 - self.has_target.any(0).float()
        attended = (weights * self.has_target.float()[:, :, None]).sum(0) + without[:, None] * weights[0]
        answers = attended @ F.one_hot(self.ids[0], len(self.tokens)).float()
        return answers / answers.sum(-1, keepdim=True)


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """A tokenizer whose vocabulary is the words of this sentence."""
    tokenizer = Tokenizer(models.WordLevel({UNKNOWN: 0} | _vocabulary(words), unk_token=UNKNOWN))
    marks = pre_tokenizers.Split(Regex(r"[^\w\s'’-]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)  # puts the spaces back
    return tokenizer


def _vocabulary(words: Sequence[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
