"""What a model's attention costs as it stands: parameters, arithmetic for each token, and what is kept for it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from headscope.errors import HeadscopeError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.structure.trace import is_matrix
from headscope.names import Site


@dataclass(frozen=True)
class Cost:
    """Counted, not estimated. FLOPs are for one token that reads ``length`` tokens; a multiplication is two."""

    heads: int
    kv_heads: int
    parameters: int
    attention_parameters: int
    flops: int
    attention_flops: int
    kv_numbers: int
    """Numbers that a cache keeps for each token."""
    length: int


def cost(opened: HuggingFaceModel, length: int) -> Cost:
    """Count a model. Where experts are chosen for each token, ``flops`` counts them all."""
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
    """Each site's module, and W_O where it stands outside of it."""
    found = list(opened.site_modules().values())
    for site in opened.shape.sites:
        try:
            matrix = opened.output_path_of(site).matrix
        except HeadscopeError:  # no single W_O: nothing stands outside
            continue
        found.append(opened.model.get_submodule(str(matrix)))
    return found


def _numbers(matrix: nn.Module) -> int:
    weight = getattr(matrix, "weight", None)
    return 0 if weight is None else int(weight.numel())


def _pair_flops(site: Site, length: int) -> int:
    """Scores and weighing: a dot product and a weighted sum for each key that the last of ``length`` tokens reads."""
    keys = length if site.window is None else min(length, site.window)
    return 2 * site.n_heads * (site.d_head + site.d_value) * keys
