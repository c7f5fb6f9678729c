"""The pattern a head would have if in every layer each token read only itself, the token before it and the first token.

Labels of tokens do not say what a token has read from its context, and most heads look for that. This rule bounds it:
queries and keys are computed in a pass in which no attention reaches further back, and the head then compares all of
them as ever. In the first layer that is the head's own pattern; with each layer a token knows of one more before it.
Heads of random weights gain by it, too: it says what a pattern depends on, not that a head has a job.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.attention.scores import Scores
from headscope.heads.look.chunked_loss import KEEP
from headscope.models.protocol import OpenModel

NAME = "short context"
WINDOW = 2
"""Tokens that each token reads, itself included; the first token, where attention rests, comes on top."""
ROWS = 128
"""Rows of a short-context pass that are computed at once."""

ShortContext = Mapping[str, Call]
"""By site: queries and keys of tokens that have read little, for the scores of the full text."""


def read_short_context(
    model: OpenModel, inputs: Mapping[str, Tensor], n_tokens: int, sites: Sequence[str], window: int = WINDOW
) -> ShortContext:
    """Run a text in which every token reads only the first token and the last ``window`` ones, in every layer."""
    found: dict[str, Call] = {}

    def observe(site: str, call: Call) -> Tensor:
        if call.q.shape[0] != 1 or not call.q.shape[2] == call.k.shape[2] == n_tokens:
            return plain(call)
        if site in sites:
            found[site] = replace(call, v=call.v[..., :0])  # values are not needed again
        return torch.cat([_attend(call, rows, window) for rows in _chunks(n_tokens, call.q.device)], dim=2)

    with torch.no_grad():
        model.run(without_logits(model, inputs), observe)
    return found


def without_logits(model: OpenModel, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inputs of a pass for its patterns: one position's logits are computed where the model can do that."""
    ids = inputs.get("input_ids")
    if ids is None or KEEP not in inspect.signature(model.model.forward).parameters:
        return dict(inputs)
    return {**inputs, KEEP: torch.zeros(1, dtype=torch.long, device=ids.device)}


def pattern_rows(
    call: Call, rows: Int[Tensor, " row"], n_keys: int | None = None
) -> tuple[Float[Tensor, "head row key"], Bool[Tensor, "row key"]]:
    """Rows of the patterns of a call over the first ``n_keys`` keys, and which of them they may attend to."""
    scores = call.scores.bind(call.q, call.k)
    keys = torch.arange(call.k.shape[2] if n_keys is None else n_keys, device=call.q.device)
    logits = scores.block(call.q[:, :, rows], call.k[:, :, : len(keys)], rows, keys, 0)[0].float()
    return _softmax(scores, logits), scores.mask.block(rows, keys, 0)[0, 0].expand(len(rows), -1)


def _attend(call: Call, rows: Int[Tensor, " row"], window: int) -> Float[Tensor, "batch head row d_value"]:
    """z of these rows over the first key and those within the window."""
    scores = call.scores.bind(call.q, call.k)
    first, last = max(1, int(rows[0]) - window + 1), min(call.k.shape[2], int(rows[-1]) + window)
    keys = torch.cat((rows.new_zeros(1), torch.arange(first, last, device=rows.device)))
    logits = scores.block(call.q[:, :, rows], call.k[:, :, keys], rows, keys, 0)[0].float()
    far = ((rows[:, None] - keys).abs() >= window) & (keys > 0)
    weights = _softmax(scores, logits.masked_fill(far, float("-inf")))
    values = call.v[0, :, keys].repeat_interleave(call.q.shape[1] // call.k.shape[1], dim=0)
    return (weights.to(values) @ values)[None]


def _softmax(scores: Scores, logits: Float[Tensor, "head row key"]) -> Float[Tensor, "head row key"]:
    """Weights of the keys. A learned sink takes its share; the rows add up to what is left."""
    if scores.sinks is not None:
        sinks = scores.sinks.to(logits)[:, None, None].expand(-1, logits.shape[1], 1)
        logits = torch.cat((logits, sinks), dim=-1)
        return torch.softmax(logits, dim=-1).nan_to_num_(0.0)[..., :-1]
    return torch.softmax(logits, dim=-1).nan_to_num_(0.0)


def _chunks(n_tokens: int, device: torch.device) -> Iterator[Int[Tensor, " row"]]:
    yield from torch.split(torch.arange(n_tokens, device=device), ROWS)
