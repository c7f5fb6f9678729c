"""Read texts and keep the patterns of a few rows of each: what rules are fitted and chosen on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.class_table import Cells
from headscope.heads.rules.rule import Rule, Targeted
from headscope.heads.rules.short_context import pattern_rows, read_short_context, without_logits
from headscope.models.protocol import OpenModel, Prepared, Token

FIRST_ROW = 16
"""Rows before this one are left out: they see so few keys that every rule fits them."""

CELLS = 2**24
"""Weights computed at once, of heads or of rules."""
ROWS = 160
"""Rows read at once: keys that none of them may attend to are left out."""
AT_ONCE = 128
"""Rules whose distributions are held at once, about."""
KEPT = 2**17
"""Weights of a head that are kept for fitting, about; at least ``FEWEST`` rows of every text are."""
FEWEST = 8


class Block(NamedTuple):
    """Some rows of a site's patterns in one text, which keys they may attend to, and the patterns in short context.

    Keys after the last that one of the rows may attend to are left out.
    """

    site: str
    rows: Int[Tensor, " row"]
    weights: Float[Tensor, "head row key"]
    visible: Bool[Tensor, "row key"]
    context: Float[Tensor, "head row key"] | None = None
    z: Float[Tensor, "head row d_value"] | None = None


Take = Callable[[Block], None]


def read_patterns(
    model: OpenModel, text: Text, sites: Sequence[str], rows: Int[Tensor, " row"], take: Take, short: bool = False
) -> None:
    """Run one text and pass these rows of every site's patterns to ``take``, a few rows at a time.

    With ``short``, blocks hold the same rows of the patterns in short context, too.
    """
    n_tokens = len(text.prepared.tokens)
    context = read_short_context(model, text.prepared.inputs, n_tokens, sites) if short else {}

    def observe(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site in sites and call.q.shape[0] == 1 and call.q.shape[2] == call.k.shape[2] == n_tokens:
            n_heads = max(call.q.shape[1], AT_ONCE)
            causal = model.shape.sites[site].causal
            for part in torch.split(rows.to(call.q.device), max(1, min(ROWS, CELLS // (n_heads * n_tokens)))):
                n_keys = int(part[-1]) + 1 if causal else n_tokens
                other = pattern_rows(context[site], part, n_keys)[0] if site in context else None
                take(Block(site, part, *pattern_rows(call, part, n_keys), other, z[0, :, part]))
        return z

    with torch.no_grad():
        model.run(without_logits(model, text.prepared.inputs), observe)


class Text(NamedTuple):
    """A text as the model reads it, and its labels."""

    prepared: Prepared
    features: TokenFeatures
    labelled: TokenFeatures
    """The features that rules read: the text's own, or those of its tokens in another order (the null)."""


@dataclass
class Sample:
    """Rows of several texts: every head's pattern there, and every rule's distribution. Keys beyond a text are zero."""

    patterns: dict[str, Float[Tensor, "_ row key"]]
    context: dict[str, Float[Tensor, "_ row key"]]
    """The same rows in short context; empty where they were not asked for."""
    rules: Float[Tensor, "rule row key"]
    cells: Cells
    """What class tables read."""
    rows: list[Int[Tensor, "_"]]
    """The rows of each text."""
    mean_z: dict[str, Float[Tensor, "_ d_value"]]
    """By site: the mean z of every head over these rows."""

    @property
    def n_rows(self) -> int:
        return self.rules.shape[1]


@dataclass(frozen=True)
class Drawing:
    """Which rows are kept for which sites, and whether in short context, too."""

    sites: Sequence[str]
    total: int
    seed: int
    short: bool = True


def sites_by_mask(model: OpenModel, text: Text, sites: Sequence[str]) -> list[list[str]]:
    """Put sites together whose queries see the same keys, in some rows of a text: layers with and without a window."""
    n_tokens, seen = len(text.features), dict[str, list[int]]()
    first = min(FIRST_ROW, n_tokens - 1)
    rows = torch.linspace(first, n_tokens - 1, min(FEWEST, n_tokens - first)).round().long()

    def take(block: Block) -> None:
        seen.setdefault(block.site, []).append(visible_hash(block.visible))

    read_patterns(model, text, sites, rows, take)
    alike: dict[tuple[int, ...], list[str]] = {}
    for site in sites:
        alike.setdefault(tuple(seen.get(site, ())), []).append(site)
    return list(alike.values())


def visible_hash(visible: Bool[Tensor, "row key"]) -> int:
    """A hash of which keys some rows see: layers with and without a window do not draw the same distributions."""
    return hash((visible.shape, np.packbits(visible.cpu().numpy()).tobytes()))


def sample_rows(model: OpenModel, texts: Sequence[Text], rules: Sequence[Rule], drawing: Drawing) -> Sample:
    """Keep about ``drawing.total`` rows of these texts, fewer of long ones. The sites' queries see the same keys."""
    width = max(len(text.features) for text in texts)
    each = max(FEWEST, min(-(-drawing.total // len(texts)), KEPT // (width * len(texts))))
    generator = torch.Generator().manual_seed(drawing.seed)
    seen: list[list[Block]] = []
    parts: list[tuple[Tensor, Cells]] = []
    kept: list[Tensor] = []
    for text in texts:
        n_tokens = len(text.features)
        later = torch.arange(min(FIRST_ROW, n_tokens - 1), n_tokens)
        rows = later[torch.randperm(len(later), generator=generator)[:each]].sort().values
        blocks: list[Block] = []
        read_patterns(model, text, drawing.sites, rows, blocks.append, drawing.short)
        seen.append(blocks)
        kept.append(rows)
        first = [_widened(block.visible, n_tokens) for block in blocks if block.site == drawing.sites[0]]
        parts.append(_labelled(rules, text, rows, torch.cat(first), width))
    distributions, cells = zip(*parts, strict=True)
    return Sample(
        {site: _joined(seen, site, width, lambda block: block.weights) for site in drawing.sites},
        {site: _joined(seen, site, width, lambda block: block.context) for site in drawing.sites if drawing.short},
        torch.cat(distributions, dim=1),
        Cells(*(torch.cat(columns) for columns in zip(*cells, strict=True))),
        kept,
        {site: _mean_z(seen, site) for site in drawing.sites},
    )


def _joined(
    seen: Sequence[Sequence[Block]], site: str, width: int, part: Callable[[Block], Tensor | None]
) -> Float[Tensor, "head row key"]:
    """The rows of all texts of one site."""
    found = [part(block) for blocks in seen for block in blocks if block.site == site]
    return torch.cat([_widened(each, width) for each in found if each is not None], dim=1)


def _mean_z(seen: Sequence[Sequence[Block]], site: str) -> Float[Tensor, "head d_value"]:
    found = [block.z for blocks in seen for block in blocks if block.site == site]
    return torch.cat([z for z in found if z is not None], dim=1).float().mean(1)


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
