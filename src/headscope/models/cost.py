"""Count a model's parameters, FLOPs per token and KV cache, and how much of each is attention."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from torch import nn

from headscope.errors import HeadscopeError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.structure.trace import is_matrix
from headscope.names import Site


@dataclass(frozen=True)
class Cost:
    """Counts of one model. FLOPs are of one token that attends to ``length`` tokens; a multiply-add is two."""

    heads: int
    kv_heads: int
    parameters: int
    attention_parameters: int
    flops: int
    attention_flops: int
    kv_numbers: int
    """Numbers in the KV cache per token."""
    length: int


def cost(opened: HuggingFaceModel, length: int) -> Cost:
    """Count a model. In a mixture of experts, ``flops`` counts all experts."""
    sites = list(opened.shape.sites.values())
    attention = _attention_modules(opened)
    inside = {id(weight): weight.numel() for module in attention for weight in module.parameters()}
    matrices = {id(part): part for part in opened.model.modules() if is_matrix(part)}
    own = {id(part) for module in attention for part in module.modules()}
    products = {key: 2 * _numbers(part) for key, part in matrices.items()}
    pairs = sum(_pair_flops(site, length) for site in sites)
    return Cost(
        heads=sum(site.n_heads for site in sites),
        kv_heads=sum(site.n_kv_heads for site in sites),
        parameters=sum(weight.numel() for weight in opened.model.parameters()),
        attention_parameters=sum(inside.values()),
        flops=pairs + sum(products.values()),
        attention_flops=pairs + sum(count for key, count in products.items() if key in own),
        kv_numbers=sum(site.n_kv_heads * (site.d_head + site.d_value) for site in sites),
        length=length,
    )


def _attention_modules(opened: HuggingFaceModel) -> list[nn.Module]:
    """The module of each site, and W_O where it is outside of it."""
    found = list(opened.site_modules().values())
    for site in opened.shape.sites:
        with suppress(HeadscopeError):  # a site without a single W_O
            found.append(opened.output_matrix(site))
    return found


def _numbers(matrix: nn.Module) -> int:
    weight = getattr(matrix, "weight", None)
    return 0 if weight is None else int(weight.numel())


def _pair_flops(site: Site, length: int) -> int:
    """FLOPs of the scores and the weighted sum, over the keys that the last of ``length`` tokens attends to."""
    keys = length if site.window is None else min(length, site.window)
    return 2 * site.n_heads * (site.d_head + site.d_value) * keys
