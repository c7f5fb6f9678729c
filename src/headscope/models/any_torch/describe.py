"""Describe an opened module: its widths, its logits, the grid of its patches, and notes for the user."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from headscope.models.any_torch.arguments import IDS
from headscope.models.any_torch.checks import seeded
from headscope.models.any_torch.compiled import without_fast_path
from headscope.models.any_torch.learning import LearnedSite
from headscope.models.inputs.media_positions import MOST_EXTRA
from headscope.models.modes import hooked
from headscope.models.selfcheck import relative_difference
from headscope.models.structure.sites import input_embedding, logits_of, predicts_tokens, span, width_of
from headscope.models.structure.unembedding import find_unembedding

if TYPE_CHECKING:
    from headscope.models.any_torch.model import AnyTorchModel

EAGER = (
    "{sites} compute attention in eager code, so the model itself makes as many numbers as queries × keys there; "
    "headscope's promise of memory does not hold for them"
)
DRAWS = "its output is drawn at random: two runs on the same input differ, and a look shows one of them"
UNSOFTENED = (
    "not observed: {paths}: the product of two activations is multiplied by a third, as in attention, without a "
    "softmax over the keys"
)
SEVERAL_PATTERNS = (
    "{sites} have several patterns for one input: it is split into windows (tiles, frames) that attend each on its "
    "own, or heads share one output matrix; a look shows the first, an edit changes all of them"
)
ACROSS_ITEMS = (
    "what stands elsewhere on the first axis of the inputs changes the output at its first place: if that axis is the "
    "batch, its items attend to each other"
)


def describe(opened: AnyTorchModel) -> None:
    """Run the probe once more and see what its layers made: widths, grids of patches, and the way to its logits."""
    made: list[Tensor] = []
    patches = [part for part in opened.model.modules() if isinstance(part, nn.Conv2d)]
    keep = hooked(patches, after=lambda module, args, kwargs, output: made.append(output))
    with without_fast_path(opened.model), keep, torch.no_grad():
        output = opened._call(opened.probe)
    logits, ids = logits_of(output), opened.probe.get(IDS)
    table = input_embedding(opened.model)
    rows = int(table.weight.shape[0]) if isinstance(table, nn.Embedding) else None
    if rows is not None and ids is not None and int(ids.max()) >= rows:
        rows = None  # a table of something else: one column of several
    opened.processor.vocabulary = opened.processor.vocabulary or rows
    good = {name: site for name, site in opened.learned.items() if not site.why}
    widths = [int(site.takes[0].weight.shape[1]) for site in good.values() if site.takes]
    width = width_of(opened.model) if hasattr(opened.model, "config") else 0
    grids, windowed = [(one.shape[2], one.shape[3]) for one in made if one.ndim == 4], _windowed(opened)
    sites = {
        name: replace(
            opened.shape.sites[name],
            grid=grid_of(site.shape[-2], [] if name in windowed else grids, opened.hints.grid),
        )
        for name, site in good.items() if name in opened.shape.sites
    }  # fmt: skip
    opened.shape = replace(opened.shape, d_model=width or next(iter(widths), 0), sites=sites)
    if ids is None or tuple(logits.shape[:2]) != tuple(ids.shape):
        return
    path, named = find_unembedding(opened), hasattr(opened.model, "get_output_embeddings")
    opened._set_unembedding(path)
    if predicts_tokens(output) if named else path.matrix is not None or logits.shape[-1] == rows:
        opened.shape = replace(opened.shape, vocabulary=int(logits.shape[-1]))


def grid_of(length: int, made: Sequence[tuple[int, int]], given: tuple[int, int] | None) -> tuple[int, int] | None:
    """The grid of patches of a site: the user's, or the one that a convolution made of the whole picture."""
    wanted = made if given is None else [given]
    fits = [(length - h * w, (h, w)) for h, w in wanted if 0 <= length - h * w <= MOST_EXTRA and h * w > 1]
    return min(fits)[1] if fits else None


def notes_on(opened: AnyTorchModel) -> list[str]:
    """What a user should know of this module."""
    notes = list(opened.hints.notes)
    good = {name: site for name, site in opened.learned.items() if not site.why}
    eager = [name for name, site in good.items() if site.eager]
    if eager:
        notes.append(EAGER.format(sites=span(eager)))
    if opened.draws:
        notes.append(DRAWS)
    if opened.unsoftened:
        notes.append(UNSOFTENED.format(paths=", ".join(sorted(path or opened.name for path in opened.unsoftened))))
    for why in dict.fromkeys(site.why for site in opened.learned.values() if site.why):
        names = [name for name, site in opened.learned.items() if site.why == why]
        notes.append(f"not observed: {span(names)}: {why}")
    if opened.mixes_items:
        notes.append(ACROSS_ITEMS)
    windowed = _windowed(opened)
    if windowed:
        notes.append(SEVERAL_PATTERNS.format(sites=span(windowed)))
    for why in dict.fromkeys(site.kind_why for site in good.values() if site.kind_why):
        names = [name for name, site in good.items() if site.kind_why == why]
        notes.append(f"head parts of {span(names)} are {good[names[0]].kind}: {why}")
    shared = _sharing(good)
    if shared:
        notes.append(f"{span(shared)} share a W_O with other sites, and its bias is counted at each of them")
    several = [name for name, site in good.items() if len({id(take.parameter) for take in site.takes}) > 1]
    if several:
        notes.append(f"positions of {span(several)} go through several output matrices; their heads are not split")
    return notes


def _sharing(good: Mapping[str, LearnedSite]) -> list[str]:
    """Sites that one use of a matrix takes together."""
    uses: dict[int, list[str]] = {}
    for name, site in good.items():
        for take in site.takes:
            uses.setdefault(take.index, []).append(name)
    return list(dict.fromkeys(name for names in uses.values() if len(names) > 1 for name in names))


def _windowed(opened: AnyTorchModel) -> list[str]:
    """Sites that have more patterns than the probe has items."""
    batch = next((len(value) for value in opened.probe.values() if value.ndim), 1)
    good = {name: site for name, site in opened.learned.items() if not site.why}
    return [name for name, site in good.items() if math.prod(site.shape[:-2]) // max(site.n_heads, 1) > batch]


def refusal(name: str, learned: Mapping[str, LearnedSite]) -> str:
    """Say why a module cannot be opened: headscope sees no attention in it, or none that can be shown."""
    if not learned:
        return (
            f"{name}: no attention was found: it calls neither PyTorch's attention functions nor softmax and a product "
            "(kernels of other packages, TorchScript and linear attention are not seen)"
        )
    reasons = {site.why: site.name for site in learned.values()}
    said = "; ".join(f"{where}: {why}" for why, where in list(reasons.items())[:3])
    return (
        f"{name}: none of its {len(learned)} attention calls can be shown: {said}. Where W_O or the heads are not "
        'found, say them: sites={"blocks.*.attn": {"output": "proj", "n_heads": 12}}'
    )


def items_mixed(opened: AnyTorchModel, own: Tensor) -> bool:
    """Whether the first item's output depends on the other items, where the first axis may be the batch."""
    probe = opened.probe
    sizes = {len(value) for value in probe.values() if value.ndim}
    first = [part for part in opened.model.modules() if getattr(part, "batch_first", True) is False]
    if sizes != {len(own)} or len(own) < 2 or first or opened.arguments.function is not None:
        return False
    others = {n: torch.cat((t[:1], t[1:].flip(-1))) if t.ndim > 1 else t for n, t in probe.items()}
    floats = {n: others[n] if t.is_floating_point() else t for n, t in probe.items()}
    for tried in (others, floats):  # categories of one column may be none of another's
        with without_fast_path(opened.model), suppress(IndexError, RuntimeError):
            changed = seeded(partial(opened.own_output, tried))
            return changed.shape == own.shape and not relative_difference(changed[:1], own[:1]) <= 1e-3
    return False
