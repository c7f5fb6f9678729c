"""What each head adds to the residual stream (z through its rows of W_O), and direct logit attribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.checked import summary
from headscope.errors import ModelError
from headscope.heads.head_table import HeadTable, of_head
from headscope.models.modes import own_precision
from headscope.models.protocol import HeadSum, Unembedding
from headscope.models.structure.recorded_pass import RecordedPass
from headscope.names import Head, HeadName

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

AFTER_NOTE = "so is the norm that stands after W_O"


@dataclass(frozen=True)
class SiteContribution:
    """One site at one position. ``parts.sum(0) + bias`` is ``output``, as exactly as ``kind`` says."""

    z: Float[Tensor, "head d_value"]
    parts: Float[Tensor, "head d_model"]
    bias: Float[Tensor, " d_model"]
    output: Float[Tensor, " d_model"]
    kind: HeadSum

    __repr__ = summary

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

    def __repr__(self) -> str:
        norms = sorted(((float(part.norm()), f"{site}.{n}") for site, one in self.sites.items()
                        for n, part in enumerate(one.parts)), reverse=True)  # fmt: skip
        largest = ", ".join(f"{head} {norm:.2f}" for norm, head in norms[:5])
        return f"Contributions at position {self.position} of {len(norms)} heads; the longest: {largest}"

    def part(self, head: HeadName) -> Float[Tensor, " d_model"]:
        found = Head.parse(head)
        return self.sites[found.site].parts[found.head]


@dataclass(frozen=True, repr=False)
class LogitAttribution(HeadTable):
    """A logit (or a difference of two) as a sum: each head's share, and everything else together.

    Of a model that caps its logits, it is the logit before the cap; ``note`` says so.
    """

    _column = "contribution"
    _signed = True
    heads: Mapping[Head, float]
    rest: float
    total: float
    note: str

    def _rows(self) -> list[dict[str, Any]]:
        """A row per head, with its contribution to the logit."""
        return [{**of_head(head), "contribution": value} for head, value in self.heads.items()]

    def _title(self) -> str:
        return "Contributions of heads to the logit"

    def listed(self, count: int = 10) -> str:
        """The ``count`` largest contributions as lines, under the logit."""
        return f"Logit {self.total:+.2f}, of which {self.rest:+.2f} is not from heads.\n{super().listed(count)}"

    def ranked(self) -> list[tuple[Head, float]]:
        """Heads by the absolute size of their share, largest first."""
        return sorted(self.heads.items(), key=lambda item: -abs(item[1]))


@own_precision()
def site_contribution(look: Look, site: str, position: int) -> SiteContribution:
    """Split the output of a site at one position into head parts: from z, or from what a gate or norm made of it."""
    look.cache.refuse_changed_weights()
    weight = look.model.output_weight(site)
    read = None if weight.kind == "exact" else look.recorded.stream.read_by_w_o.get(site)
    x = look.cache.z(site).transpose(1, 2) if weight.kind == "exact" else read
    if x is None:
        raise ModelError(f"{site}: its W_O was not called on this text, so its heads cannot be split")
    x = x[:1, position : position + 1]
    output, x = look.model.apply_output_weight(site, x)[0, 0].float(), x[0, 0].float()
    parts = torch.einsum("hd,hdm->hm", x, weight.weight.detach().float())
    bias = torch.zeros_like(output) if weight.bias is None else weight.bias.detach().float()
    return SiteContribution(x, parts, bias, output, weight.kind)


def split_logit(
    recorded: RecordedPass, place: int, tokens: tuple[str | int, str | int | None], logits: Float[Tensor, " vocabulary"]
) -> LogitAttribution:
    """Split a logit over the writers of a recorded pass: each head's share, and everything else together."""
    model = recorded.model
    ids = [model.processor.token_id(token) for token in tokens if token is not None]
    total = logit_to_split(model.unembedding(), recorded.final(place), ids, logits)
    found = recorded.attribution(*tokens, place)
    shares = {head: found[str(head)] for head in model.shape.heads() if str(head) in found}
    normed = any(model.output_weight(site).post_norm is not None for site in {head.site for head in shares})
    note = model.unembedding().note + (f"; {AFTER_NOTE}" if normed else "")
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
