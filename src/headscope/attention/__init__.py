"""Attention in plain PyTorch: the module, masks and scores, and ``observe`` for exact statistics of every head."""

from headscope.attention import engine
from headscope.attention.masks import Mask, causal, dense, documents, full, padding, window
from headscope.attention.module import KVCache, MultiHeadAttention
from headscope.attention.observation import Observation
from headscope.attention.questions import Question
from headscope.attention.rope import Rope
from headscope.attention.scores import Alibi, Relative, Scores
from headscope.checked import checked

choose, observe, refusals = checked(engine.choose), checked(engine.observe), checked(engine.refusals)

__all__ = [
    "Alibi",
    "KVCache",
    "Mask",
    "MultiHeadAttention",
    "Observation",
    "Question",
    "Relative",
    "Rope",
    "Scores",
    "causal",
    "choose",
    "dense",
    "documents",
    "full",
    "observe",
    "padding",
    "refusals",
    "window",
]
