"""Choose which heads to prune, remove them from the weights, and compare loss and cost before and after.

Heads are named, or chosen by how little the predictions move when each is ablated alone on given texts. At least one
head stays at every site: without any, a layer's attention is a constant, and is better removed whole.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from headscope.errors import HeadscopeError, InputError, ModelError
from headscope.heads.look.importance import importance, output_change, text_loss
from headscope.heads.roles.measures import predicts_next_token
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.pruning.remove_heads import remove_heads, save
from headscope.models.recording import OpenModel
from headscope.models.structure.trace import is_matrix
from headscope.names import Head, HeadName, Site


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


SCHEMA_VERSION = 1
By = Literal["exact", "gradient"]


@dataclass(frozen=True)
class Pruned:
    """A pruned model, and its cost before and after. ``loss`` is in nats per token; None without texts."""

    model: HuggingFaceModel
    removed: tuple[Head, ...]
    before: Cost
    after: Cost
    loss: tuple[float, float] | None
    plain: bool
    """Whether the config alone describes it, so that transformers opens its folder without headscope."""
    recipe: Mapping[str, Any]

    def save(self, folder: str | Path) -> Path:
        """Write it to a new folder, which ``headscope.load`` opens."""
        path = Path(folder).expanduser()
        save(self.model, path, self.to_dict())
        return path

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "pruned heads",
            **self.recipe,
            "removed": [str(head) for head in self.removed],
            "loss_nats": None if self.loss is None else {"before": self.loss[0], "after": self.loss[1]},
            "cost": {"before": asdict(self.before), "after": asdict(self.after)},
            "plain": self.plain,
        }

    def __str__(self) -> str:
        before, after = self.before, self.after
        lines = [
            f"{self.recipe['model']}: {len(self.removed)} of {before.heads} heads removed, {after.heads} left",
            _change("parameters", before.parameters, after.parameters),
            _change("attention's parameters", before.attention_parameters, after.attention_parameters),
            _change(f"attention's FLOPs per token at {before.length}", before.attention_flops, after.attention_flops),
            _change("numbers in the KV cache per token", before.kv_numbers, after.kv_numbers),
        ]
        if self.loss is not None:
            lines.append(f"  loss {self.loss[0]:.3f} -> {self.loss[1]:.3f} nats per token")
        lines.append(f"  removed {', '.join(map(str, self.removed))}")
        return "\n".join(lines)


def prune(
    model: OpenModel,
    *,
    keep: float | None = None,
    heads: Sequence[HeadName] | None = None,
    texts: Sequence[Any] = (),
    even: bool = False,
    by: By = "exact",
) -> Pruned:
    """Remove ``heads``, or all but a share of them. See ``Scope.prune``."""
    if (keep is None) == (heads is None):
        raise InputError("prune takes either keep=, the share of heads to keep, or heads=, the heads to remove")
    if not isinstance(model, HuggingFaceModel):
        raise ModelError(
            f"{model.shape.name} is not a transformers model, and only those can be pruned; ablate its heads with "
            "ablate() instead"
        )
    texts = [texts] if isinstance(texts, str) else list(texts)
    if keep is not None:
        kept = _keep_share(model, keep, texts, even, by)
    else:
        kept = _keep_unnamed(model, list(heads or ()))
    smaller, plain = remove_heads(model, kept)
    lengths = [next(iter(model.prepare(text).inputs.values())).shape[1] for text in texts]
    length = max(lengths, default=1024)
    removed = [head for head in model.shape.heads() if head.site in kept and head.head not in kept[head.site]]
    return Pruned(
        model=smaller,
        removed=tuple(removed),
        before=cost(model, length),
        after=cost(smaller, length),
        loss=(text_loss(model, texts), text_loss(smaller, texts)) if texts and predicts_next_token(model) else None,
        plain=plain,
        recipe=_recipe(model, texts, {"keep": keep, "even": even, "by": by} if keep is not None else {}),
    )


def _keep_unnamed(model: OpenModel, heads: Sequence[HeadName]) -> dict[str, list[int]]:
    if not heads:
        raise InputError("heads=[] removes nothing; name the heads to remove, as in heads=['3.5', '4.1']")
    gone = {model.shape.find(head) for head in heads}
    kept: dict[str, list[int]] = {}
    for name in dict.fromkeys(head.site for head in sorted(gone)):
        site = model.shape.sites[name]
        kept[name] = [index for index in range(site.n_heads) if Head(name, index) not in gone]
        if not kept[name]:
            raise InputError(
                f"site {name} would lose all of its heads ({site.n_heads}); at least one stays at every site, so leave "
                f"one of {name}.0–{name}.{site.n_heads - 1} out of the list"
            )
    return kept


def _keep_share(model: OpenModel, keep: float, texts: Sequence[Any], even: bool, by: By) -> dict[str, list[int]]:
    sites, total = model.shape.sites, model.shape.n_heads
    if not 0 < keep <= 1:
        raise InputError(f"keep={keep}: give the share of heads to keep, above 0 and below 1, as in keep=0.7")
    count = round(keep * total)
    if count == total:
        raise InputError(f"keep={keep} keeps all {total} heads; give a smaller share")
    if count < len(sites):
        raise InputError(
            f"keep={keep} of {total} heads is {count}, but each of the {len(sites)} sites keeps at least one; keep at "
            f"least {math.ceil(1000 * len(sites) / total) / 1000:g}"
        )
    if not texts:
        raise InputError("keep= chooses heads by their importance on texts; give some: prune(keep=0.7, texts=[…])")
    scores = _scores(model, texts, by)
    return _keep_evenly(sites, scores, keep) if even else _remove_least_important(sites, scores, total - count)


def _scores(model: OpenModel, texts: Sequence[Any], by: By) -> dict[Head, float]:
    """Each head's importance: how far predictions move without it, or the change of the loss at first order."""
    if not predicts_next_token(model):
        return output_change(model, texts)
    found = importance(model, texts, by)
    return {entry.head: abs(entry.loss.mean) if entry.kl is None else entry.kl.mean for entry in found}


def _remove_least_important(
    sites: Mapping[str, Site], scores: Mapping[Head, float], count: int
) -> dict[str, list[int]]:
    """Remove the least important heads of the whole model, down to one per site."""
    left = {name: list(range(site.n_heads)) for name, site in sites.items()}
    for head in sorted(scores, key=lambda head: (scores[head], head)):
        if count and len(left[head.site]) > 1:
            left[head.site].remove(head.head)
            count -= 1
    return {name: heads for name, heads in left.items() if len(heads) < sites[name].n_heads}


def _keep_evenly(sites: Mapping[str, Site], scores: Mapping[Head, float], keep: float) -> dict[str, list[int]]:
    """Keep as many heads at every site, and as many in every KV group that stays, so that a config describes it."""
    shapes = Counter((site.n_heads, site.n_kv_heads) for site in sites.values())
    if len(shapes) > 1:
        raise InputError("even=True needs sites of one size; this model's differ in their numbers of heads")
    first = next(iter(sites.values()))
    sizes = [(n_kv, group) for n_kv in range(1, first.n_kv_heads + 1) for group in range(1, first.group_size + 1)]
    off = {size: abs(size[0] * size[1] - keep * first.n_heads) for size in sizes if math.prod(size) < first.n_heads}
    if not off:
        raise InputError(f"even=True cannot shrink sites of {first.n_heads} head; leave it out")
    nearest = [size for size in off if off[size] == min(off.values())]
    choices = [{name: _best_groups(site, scores, *size) for name, site in sites.items()} for size in nearest]
    return max(choices, key=lambda kept: sum(scores[Head(name, h)] for name, heads in kept.items() for h in heads))


def _best_groups(site: Site, scores: Mapping[Head, float], n_kv: int, group: int) -> list[int]:
    """The best ``group`` heads of the best ``n_kv`` KV groups."""

    def score(head: int) -> float:
        return scores[Head(site.name, head)]

    starts = range(0, site.n_heads, site.group_size)
    best = [sorted(range(start, start + site.group_size), key=score, reverse=True)[:group] for start in starts]
    best.sort(key=lambda heads: -sum(map(score, heads)))
    return sorted(head for heads in best[:n_kv] for head in heads)


def _recipe(model: OpenModel, texts: Sequence[Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    read = hashlib.sha256(repr([text if isinstance(text, str) else list(text) for text in texts]).encode()).hexdigest()
    return {
        "model": model.shape.name,
        "choice": dict(choice),
        "texts": {"count": len(texts), "sha256": read} if texts else None,
        "versions": {"torch": str(torch.__version__), "transformers": version("transformers")},
    }


def _change(what: str, before: int, after: int) -> str:
    return f"  {what}: {before:,} -> {after:,} ({after / before - 1:+.0%})"
