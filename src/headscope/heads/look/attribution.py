"""What each head adds to the residual stream (z through its rows of W_O), and direct logit attribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.models.protocol import HeadSum, OpenModel, SiteOutput, Unembedding
from headscope.names import Head, HeadName

AFTER_NOTE = "so is the norm that stands after W_O"
SCALE_NOTE = "what W_O writes is multiplied by a factor before it joins the residual stream, and its share with it"


@dataclass(frozen=True)
class SiteContribution:
    """One site at one position. ``parts.sum(0) + bias`` is ``output``, as exactly as ``kind`` says."""

    z: Float[Tensor, "head d_value"]
    parts: Float[Tensor, "head d_model"]
    bias: Float[Tensor, " d_model"]
    output: Float[Tensor, " d_model"]
    kind: HeadSum

    @property
    def concatenated(self) -> Float[Tensor, " all"]:
        """z of all heads, concatenated: the input of W_O."""
        return self.z.flatten()

    @property
    def norms(self) -> Float[Tensor, " head"]:
        """The norm of each head's part."""
        return self.parts.square().sum(-1).sqrt()

    @property
    def error(self) -> float:
        """Relative error of the sum of parts and bias against the output."""
        gap = (self.parts.sum(0) + self.bias - self.output).abs().max()
        return float(gap / self.output.abs().max().clamp(min=1e-12))


@dataclass(frozen=True)
class Contributions:
    """Every site's contribution at one position."""

    position: int
    sites: Mapping[str, SiteContribution]

    def part(self, head: HeadName) -> Float[Tensor, " d_model"]:
        found = Head.parse(head)
        return self.sites[found.site].parts[found.head]


@dataclass(frozen=True)
class LogitAttribution:
    """A logit (or a difference of two) as a sum: each head's share, and everything else together.

    Of a model that caps its logits, it is the logit before the cap; ``note`` says so.
    """

    heads: Mapping[Head, float]
    rest: float
    total: float
    note: str

    def ranked(self) -> list[tuple[Head, float]]:
        """Heads by the absolute size of their share, largest first."""
        return sorted(self.heads.items(), key=lambda item: -abs(item[1]))


def contributions_at(
    model: OpenModel, recorded: Mapping[str, SiteOutput], position: int, row: int | None = None
) -> Contributions:
    """Split the output of every recorded site at one position into head parts; ``row`` is where it was recorded."""
    row = position if row is None else row
    sites = {}
    for name, site in recorded.items():
        weight = model.output_weight(name)
        x = site.x[0, row].float()
        parts = torch.einsum("hd,hdm->hm", x, weight.weight.detach().float())
        output = site.output[0, row].float()
        bias = torch.zeros_like(output) if weight.bias is None else weight.bias.detach().float()
        sites[name] = SiteContribution(x, parts, bias, output, weight.kind)
    return Contributions(position, sites)


def split_logit(
    model: OpenModel,
    parts: Contributions,
    residual: Float[Tensor, " d_model"],
    tokens: Sequence[int],
    logits: Float[Tensor, " vocabulary"],
) -> LogitAttribution:
    """Project each head's part through the final norm, its scale held, onto the token's row of W_U."""
    unembedding = model.unembedding()
    direction = unembedding.weight[tokens[0]].detach().float()
    total = logit_to_split(unembedding, residual, tokens, logits)
    if len(tokens) > 1:
        direction = direction - unembedding.weight[tokens[1]].detach().float()
    final_direction = through_frozen_norm(unembedding.norm, residual, direction)
    shares: dict[Head, float] = {}
    note = unembedding.note
    for name, site in parts.sites.items():
        after = model.output_weight(name).post_norm
        scale = model.residual_scale(name)
        reading = final_direction if after is None else through_frozen_norm(after, site.output, final_direction)
        reading = reading * scale
        shares |= {Head(name, index): value for index, value in enumerate((site.parts @ reading).tolist())}
        if after is not None and AFTER_NOTE not in note:
            note = f"{note}; {AFTER_NOTE}"
        if scale != 1.0 and SCALE_NOTE not in note:
            note = f"{note}; {SCALE_NOTE}"
    return LogitAttribution(shares, total - sum(shares.values()), total, note)


@torch.no_grad()
def logit_to_split(
    unembedding: Unembedding,
    residual: Float[Tensor, " d_model"],
    tokens: Sequence[int],
    logits: Float[Tensor, " vocabulary"],
) -> float:
    """The logit of a token, less that of a second one if there is one; before the cap where a model has one."""
    found = logits[list(tokens)].float()
    if unembedding.caps:
        x = residual.to(unembedding.weight)
        x = x if unembedding.norm is None else unembedding.norm(x[None, None])[0, 0]
        found = (unembedding.weight[list(tokens)] @ x).float()
        found = found if unembedding.bias is None else found + unembedding.bias[list(tokens)].float()
    first, *second = found.tolist()
    return float(first - sum(second))


def through_frozen_norm(
    norm: torch.nn.Module | None, at: Float[Tensor, " d_model"], directions: Float[Tensor, "... d_model"]
) -> Float[Tensor, "... d_model"]:
    """Pull directions back through a norm whose scale is held."""
    gain, centred = frozen_norm(norm, at)
    reading = gain.to(directions.device) * directions
    return reading - reading.mean(-1, keepdim=True) if centred else reading


def frozen_norm(
    norm: torch.nn.Module | None, residual: Float[Tensor, " d_model"]
) -> tuple[Float[Tensor, " d_model"], bool]:
    """The final norm as what it is at this residual: a gain for each entry, and whether it takes the mean away.

    Found by trying it, so that it holds for RMSNorm and LayerNorm under any name and however the gain is stored.
    """
    residual = residual.float()
    if norm is None:
        return torch.ones_like(residual), False
    parameter = next(norm.parameters(), residual)

    def apply(x: Tensor) -> Tensor:
        with torch.no_grad():
            normed: Tensor = norm(x.to(parameter)[None, None])
        return normed[0, 0].float()

    at_zero = apply(torch.zeros_like(residual))
    shift = residual.std().clamp(min=1e-6) * 10
    centred = bool(torch.allclose(apply(residual + shift), apply(residual), rtol=1e-2, atol=1e-2))
    signs = torch.ones_like(residual)
    signs[1::2] = -1
    gain = (apply(signs) - at_zero) / (signs - signs.mean() if centred else signs)
    inner = residual - residual.mean() if centred else residual
    scaled = inner * gain
    size = ((apply(residual) - at_zero) @ scaled) / (scaled @ scaled).clamp(min=1e-12)
    return gain * size, centred
