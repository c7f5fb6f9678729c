"""Read texts and keep the patterns of a few rows of each: what rules are fitted and chosen on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.heads.rules.class_table import Cells
from headscope.heads.rules.rule import Rule, Targeted
from headscope.heads.rules.token_features import TokenFeatures
from headscope.models.protocol import OpenModel, Prepared, Token

FIRST_ROW = 16
"""Rows before this one are left out: they see so few keys that every rule fits them."""

CELLS = 2**24
"""Weights computed at once, of heads or of rules."""
AT_ONCE = 128
"""Rules whose distributions are held at once, about."""
KEPT = 2**17
"""Weights of a head that are kept for fitting, about; at least ``FEWEST`` rows of every text are."""
FEWEST = 8


class Block(NamedTuple):
    """Some rows of a site's patterns in one text, and which keys they may attend to."""

    site: str
    rows: Int[Tensor, " row"]
    weights: Float[Tensor, "head row key"]
    visible: Bool[Tensor, "row key"]


Take = Callable[[Block], None]


def read_patterns(
    model: OpenModel, prepared: Prepared, sites: Sequence[str], rows: Int[Tensor, " row"], take: Take
) -> None:
    """Run one text and pass these rows of every site's patterns to ``take``, a few rows at a time."""
    n_tokens = len(prepared.tokens)

    def observe(site: str, call: Call) -> Tensor:
        if site in sites and call.q.shape[0] == 1 and call.q.shape[2] == call.k.shape[2] == n_tokens:
            for block in _blocks(site, call, rows):
                take(block)
        return plain(call)

    with torch.no_grad():
        model.run(prepared.inputs, observe)


def _blocks(site: str, call: Call, rows: Int[Tensor, " row"]) -> Iterator[Block]:
    scores = call.scores.bind(call.q, call.k)
    n_heads, n_keys = call.q.shape[1], call.k.shape[2]
    keys = torch.arange(n_keys, device=call.q.device)
    for part in torch.split(rows.to(call.q.device), max(1, CELLS // (max(n_heads, AT_ONCE) * n_keys))):
        logits = scores.block(call.q[:, :, part], call.k, part, keys, 0)[0].float()
        if scores.sinks is not None:  # a learned sink takes its share; the rows add up to what is left
            sinks = scores.sinks.to(logits)[:, None, None].expand(-1, len(part), 1)
            logits = torch.cat((logits, sinks), dim=-1)
        weights = torch.softmax(logits, dim=-1).nan_to_num_(0.0)[..., :n_keys]
        yield Block(site, part, weights, scores.mask.block(part, keys, 0)[0, 0].expand(len(part), -1))


@dataclass
class Sample:
    """Rows of several texts: every head's pattern there, and every rule's distribution. Keys beyond a text are zero."""

    patterns: dict[str, Float[Tensor, "_ row key"]]
    rules: Float[Tensor, "rule row key"]
    cells: Cells
    """What class tables read."""
    rows: list[Int[Tensor, "_"]]
    """The rows of each text."""

    @property
    def n_rows(self) -> int:
        return self.rules.shape[1]


class Text(NamedTuple):
    """A text as the model reads it, and its labels."""

    prepared: Prepared
    features: TokenFeatures
    labelled: TokenFeatures
    """The features that rules read: the text's own, or those of its tokens in another order (the null)."""


def sample_rows(
    model: OpenModel, texts: Sequence[Text], rules: Sequence[Rule], sites: Sequence[str], total: int, seed: int
) -> Sample:
    """Keep about ``total`` rows of these texts, fewer of long ones."""
    width = max(len(text.features) for text in texts)
    each = max(FEWEST, min(-(-total // len(texts)), KEPT // (width * len(texts))))
    generator = torch.Generator().manual_seed(seed)
    patterns: dict[str, list[Tensor]] = {site: [] for site in sites}
    parts: list[tuple[Tensor, Cells]] = []
    kept: list[Tensor] = []
    for text in texts:
        n_tokens = len(text.features)
        later = torch.arange(min(FIRST_ROW, n_tokens - 1), n_tokens)
        rows = later[torch.randperm(len(later), generator=generator)[:each]].sort().values
        seen: list[Block] = []
        read_patterns(model, text.prepared, sites, rows, seen.append)
        for site in sites:
            own = [block.weights for block in seen if block.site == site]
            patterns[site].append(_widened(torch.cat(own, dim=1), width))
        kept.append(rows)
        first = [block.visible for block in seen if block.site == sites[0]]
        parts.append(_labelled(rules, text, rows, torch.cat(first), width))
    blocks, cells = zip(*parts, strict=True)
    joined = Cells(*(torch.cat(columns) for columns in zip(*cells, strict=True)))
    joined_patterns = {site: torch.cat(own, dim=1) for site, own in patterns.items()}
    return Sample(joined_patterns, torch.cat(blocks, dim=1), joined, kept)


def relabelled(sample: Sample, texts: Sequence[Text], rules: Sequence[Rule]) -> Float[Tensor, "rule row key"]:
    """The distributions of the rules on a sample's rows under other labels; patterns stay as they are."""
    width, start, blocks = sample.rules.shape[-1], 0, []
    for text, rows in zip(texts, sample.rows, strict=True):
        visible = sample.cells.visible[start : start + len(rows), : len(text.features)]
        start += len(rows)
        block = Targeted(rules, text.labelled, visible.device).block(rows.to(visible.device), visible)
        blocks.append(_widened(block, width))
    return torch.cat(blocks, dim=1)


def _labelled(
    rules: Sequence[Rule], text: Text, rows: Int[Tensor, " row"], visible: Bool[Tensor, "row key"], width: int
) -> tuple[Float[Tensor, "rule row wide"], Cells]:
    rows = rows.to(visible.device)
    block = Targeted(rules, text.labelled, visible.device).block(rows, visible)
    query, *wide = Cells.of(text.labelled, rows, visible)
    return _widened(block, width), Cells(query, *(_widened(part, width) for part in wide))


def _widened(part: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(part, (0, width - part.shape[-1]))


def own_text(prepared: Prepared) -> Text:
    features = TokenFeatures.of(prepared.tokens)
    return Text(prepared, features, features)


def shuffled_text(prepared: Prepared, seed: int) -> Text:
    """A text whose rules read its tokens in another order; the first stays, so that position is as it was."""
    order = torch.randperm(len(prepared.tokens) - 1, generator=torch.Generator().manual_seed(seed)) + 1
    tokens: list[Token] = [prepared.tokens[0], *(prepared.tokens[place] for place in order.tolist())]
    return Text(prepared, TokenFeatures.of(prepared.tokens), TokenFeatures.of(tokens))
