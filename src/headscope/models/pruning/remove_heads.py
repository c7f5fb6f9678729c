"""Heads taken out of the weights: a second, smaller model with the same answers as the first with those heads off.

Which numbers of which matrix belong to a head is found by following the tensors, so no family has a table here. What
a family's own code counts heads by is found by trying, and every result is compared with the ablated model's answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations
from math import gcd
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import HeadscopeError, ModelError
from headscope.models.huggingface.attention import implementations
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.pruning.pruned_modeling import SCHEMA_VERSION, pruned
from headscope.models.selfcheck import TOLERANCE, difference, own_answer, same_dice
from headscope.names import Site


@dataclass(frozen=True)
class SiteCut:
    """What is left of one site: query heads, KV heads, and which KV head each place of the new order holds."""

    site: Site
    path: str
    heads: tuple[int, ...]
    kv: tuple[int, ...]
    handed: tuple[int, ...]

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Numbers that a family may keep, before and after."""
        site, n_kv = self.site, len(self.handed)
        return {
            "heads": (site.n_heads, len(self.heads)),
            "KV heads": (site.n_kv_heads, n_kv),
            "heads a KV head": (site.group_size, len(self.heads) // n_kv),
            "width of q": (site.n_heads * site.d_head, len(self.heads) * site.d_head),
            "width of k": (site.n_kv_heads * site.d_head, n_kv * site.d_head),
            "width of z": (site.n_heads * site.d_value, len(self.heads) * site.d_value),
        }

    @property
    def shares_unevenly(self) -> bool:
        return len(self.handed) != len(self.kv)


def cut_of(site: Site, path: str, heads: Sequence[int]) -> SiteCut:
    """A KV head stays while one of its query heads does; where groups are uneven, a KV head is handed on repeatedly."""
    left = Counter(head // site.group_size for head in sorted(heads))
    group = gcd(*left.values())
    handed = [place for place, count in enumerate(left.values()) for _ in range(count // group)]
    return SiteCut(site, path, tuple(sorted(heads)), tuple(left), tuple(handed))


@dataclass
class _Weights:
    """The weights that stay, and the sizes they give their matrices."""

    state: dict[str, Tensor]
    outputs: dict[str, Tensor] = field(default_factory=dict)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    shared: dict[str, dict[str, Any]] = field(default_factory=dict)

    def matrices(self, model: nn.Module) -> dict[str, tuple[int, int]]:
        sizes = {}
        for path in {**self.outputs, **self.inputs}:
            first, second = self.state[f"{path}.weight"].shape
            sizes[path] = (first, second) if _turned(model, path) else (second, first)
        return sizes


@torch.no_grad()
def without(opened: HuggingFaceModel, kept: Mapping[str, Sequence[int]]) -> tuple[HuggingFaceModel, bool]:
    """A model that has only these heads at these sites, opened; and whether its config alone says so.

    The model it comes from is left as it is. What cannot be pruned is refused by name.
    """
    cuts = [cut_of(opened.shape.sites[name], opened.path_of(name), heads) for name, heads in kept.items()]
    weights = _cut_weights(opened, cuts)
    wanted = _ablated(opened, kept)
    by_config = _from_config(opened, cuts, weights)
    if by_config is not None and _same_answer(by_config, opened, wanted) is None:
        return _reopened(opened, by_config, wanted), True
    return _reopened(opened, _shrunk(opened, cuts, weights, wanted), wanted), False


def _cut_weights(opened: HuggingFaceModel, cuts: Sequence[SiteCut]) -> _Weights:
    model = opened.model
    weights = _Weights(dict(model.state_dict()))
    owner: dict[str, str] = {}
    gone: dict[str, list[Tensor]] = {}
    for cut in cuts:
        name, site = cut.site.name, cut.site
        again = [other for other in opened.shape.sites if other != name and opened.path_of(other) == cut.path]
        if again:
            raise ModelError(f"{name} is the same module as {', '.join(again)}; shared layers cannot be pruned")
        how = opened.output_path_of(name)
        if how.kind != "exact":
            raise ModelError(f"{name}: its heads cannot be taken out, because they do not reach W_O alone: {how.why}")
        assert how.matrix is not None, "output_path_of refuses what has no matrix"
        lost = [head for head in range(site.n_heads) if head not in cut.heads]
        lost_kv = [head for head in range(site.n_kv_heads) if head not in cut.kv]
        fed = opened.feeding(name)
        for which, (path, rows) in fed.items():
            gone.setdefault(path, []).extend(rows[head] for head in (lost if which == "q" else lost_kv))
        _hand_on(weights, cut, fed)
        width = site.n_heads * site.d_value
        weights.inputs[how.matrix] = _left(width, [_span(head, site.d_value) for head in lost])
        for path in {how.matrix, *(path for path, _ in fed.values())}:
            _check_plain(model, path, name)
            if owner.setdefault(path, name) != name:
                raise ModelError(f"{name} shares {path} with {owner[path]}; heads that share weights cannot be pruned")
    for path, rows in gone.items():
        width = weights.state[f"{path}.weight"].shape[1 if _turned(model, path) else 0]
        weights.outputs[path] = _left(width, rows)
    _select(model, weights)
    return weights


def _hand_on(weights: _Weights, cut: SiteCut, fed: Mapping[Any, tuple[str, list[Tensor]]]) -> None:
    if not cut.shares_unevenly:
        return
    keys, values = fed["k"][0], fed["v"][0]
    if len({fed["q"][0], keys, values}) < 3:
        raise ModelError(
            f"{cut.site.name}: q, k and v come from one matrix, so every KV head that stays must keep equally many "
            f"query heads; {len(cut.heads)} over {len(cut.kv)} KV heads are left"
        )
    for path, d_head in ((keys, cut.site.d_head), (values, cut.site.d_value)):
        weights.shared[path] = {"heads": list(cut.handed), "d_head": d_head}


def _select(model: nn.Module, weights: _Weights) -> None:
    """Take the outputs and inputs that stay."""
    for chosen, is_output in ((weights.outputs, True), (weights.inputs, False)):
        for path, places in chosen.items():
            name = f"{path}.weight"
            axis = int(is_output == _turned(model, path))
            weights.state[name] = weights.state[name].index_select(axis, places.to(weights.state[name].device))
            if is_output and f"{path}.bias" in weights.state:
                bias = weights.state[f"{path}.bias"]
                weights.state[f"{path}.bias"] = bias.index_select(0, places.to(bias.device))


def _check_plain(model: nn.Module, path: str, site: str) -> None:
    matrix = model.get_submodule(path)
    if type(matrix) is not nn.Linear and not _turned(model, path):
        raise ModelError(f"{site}: {path} is a {type(matrix).__name__}; only plain, unpacked matrices can lose heads")


def _turned(model: nn.Module, path: str) -> bool:
    return type(model.get_submodule(path)).__name__ == "Conv1D"


def _span(head: int, width: int) -> Tensor:
    return torch.arange(head * width, (head + 1) * width)


def _left(width: int, gone: Sequence[Tensor]) -> Tensor:
    stays = torch.ones(width, dtype=torch.bool)
    for rows in gone:
        stays[rows.cpu()] = False
    return stays.nonzero()[:, 0]


def _ablated(opened: HuggingFaceModel, kept: Mapping[str, Sequence[int]]) -> Tensor:
    """What the whole model answers to its probe with those heads switched off."""

    def silence(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site not in kept:
            return z
        stays = torch.zeros(z.shape[1], dtype=z.dtype, device=z.device)
        stays[list(kept[site])] = 1.0
        return z * stays[None, :, None, None]

    with same_dice():
        return opened.run(opened.probe, silence).logits


def _fresh_config(opened: HuggingFaceModel) -> Any:
    config = deepcopy(opened.model.config)
    for stale in ("pruned_heads", "auto_map"):
        if hasattr(config, stale):
            delattr(config, stale)
    return config


def _family(opened: HuggingFaceModel) -> type:
    """The family's own class, also where the model was pruned before."""
    kind = type(opened.model)
    return kind.__mro__[1] if kind.__module__ == pruned.__module__ else kind


def _from_config(opened: HuggingFaceModel, cuts: Sequence[SiteCut], weights: _Weights) -> nn.Module | None:
    """The smaller model built from a config with fewer heads in it, if the config of this family can say that."""
    sizes = {tuple(cut.sizes[what] for what in ("heads", "KV heads")) for cut in cuts}
    same = len(sizes) == 1 and {cut.site.name for cut in cuts} == set(opened.shape.sites)
    if not same or any(cut.shares_unevenly for cut in cuts) or hasattr(opened.model.config, "pruned_heads"):
        return None
    ((heads, kv_heads),) = sizes
    config = _fresh_config(opened)
    for name, value in list(vars(config).items()):
        if "head" in name and name != "head_dim" and type(value) is int:
            before, after = kv_heads if "key" in name or "kv" in name else heads
            setattr(config, name, after if value == before else value)
    config.head_dim = cuts[0].site.d_head
    try:
        config = type(config).from_dict(config.to_dict())  # as a folder would be read: some families check sizes here
        return _filled(opened, _family(opened)(config), weights)
    except Exception:  # families say in their own ways that these sizes do not fit them; the layout can say it
        return None


def _filled(opened: HuggingFaceModel, model: Any, weights: _Weights) -> nn.Module:
    """The cut weights in a model of their size, in the place and precision of the one they come from."""
    for config, ours in implementations(model):
        config._attn_implementation_internal = "sdpa" if ours == "headscope" else "eager"
    device = next(opened.model.parameters()).device
    model.load_state_dict({name: weight.clone() for name, weight in weights.state.items()}, strict=True, assign=True)
    model.tie_weights()
    return model.to(device).eval()  # type: ignore[no-any-return]


def _shrunk(opened: HuggingFaceModel, cuts: Sequence[SiteCut], weights: _Weights, wanted: Tensor) -> nn.Module:
    """The smaller model with a layout beside its config. Sizes that its code keeps as numbers are found by trying."""
    first = None
    for numbers in _tries(opened, cuts):
        config = _fresh_config(opened)
        before = getattr(opened.model.config, "pruned_heads", None)
        layout = {
            "schema_version": SCHEMA_VERSION,
            "matrices": {**_old(before, "matrices"), **weights.matrices(opened.model)},
            "shared": {**_old(before, "shared"), **weights.shared},
            "attributes": {**_old(before, "attributes"), **numbers},
        }
        config.pruned_heads = layout
        model = _filled(opened, pruned(_family(opened))(config), weights)
        wrong = _same_answer(model, opened, wanted)
        if wrong is None:
            return model
        first = first or wrong
    where = type(opened.model.get_submodule(cuts[0].path)).__name__
    raise ModelError(f"{opened.shape.name} cannot be pruned: {where} does not work with fewer heads ({first})")


def _old(layout: Any, part: str) -> dict[str, Any]:
    return {} if layout is None else dict(layout[part])


def _tries(opened: HuggingFaceModel, cuts: Sequence[SiteCut]) -> Iterator[dict[str, dict[str, int]]]:
    """Numbers to set on attention modules: none, then one kind of number, then two, then three."""
    modules = {cut.path: vars(opened.model.get_submodule(cut.path)) for cut in cuts}
    names = sorted({name for held in modules.values() for name, value in held.items() if type(value) is int})
    choices: list[dict[str, dict[str, int]]] = []
    for name in names:
        for what in cuts[0].sizes:
            if name == "layer_idx" or any(modules[cut.path].get(name) != cut.sizes[what][0] for cut in cuts):
                continue
            choice = {cut.path: {name: cut.sizes[what][1]} for cut in cuts}
            if choice not in choices:
                choices.append(choice)
    for count in range(4):
        for chosen in combinations(choices, count):
            yield {
                path: {name: number for choice in chosen for name, number in choice[path].items()}
                for path in (modules if chosen else ())
            }


def _same_answer(model: nn.Module, opened: HuggingFaceModel, wanted: Tensor) -> str | None:
    """None if the model answers the probe as the ablated one does; else what it does instead."""
    try:
        got = own_answer(model, opened.probe, opened.quiet)
    except Exception as error:  # too few heads for a family's own code can fail in any way
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if got is None or got.shape != wanted.shape:
        return f"it answers with {'nothing' if got is None else tuple(got.shape)} instead of {tuple(wanted.shape)}"
    off, allowed = difference(got, wanted), TOLERANCE.get(wanted.dtype, 1e-4)
    return None if off <= allowed else f"its answer is off by {off:.1e}, at most {allowed:.0e}"


def _reopened(opened: HuggingFaceModel, model: nn.Module, wanted: Tensor) -> HuggingFaceModel:
    try:
        smaller = HuggingFaceModel(model, opened.reader, opened.shape.name, opened.probe)
    except HeadscopeError as error:
        raise ModelError(f"{opened.shape.name} cannot be pruned: {error}") from error
    with same_dice():
        off = difference(smaller.run(opened.probe).logits, wanted)
    if not off <= TOLERANCE.get(wanted.dtype, 1e-4):
        raise ModelError(f"{opened.shape.name} cannot be pruned: its answer would be off by {off:.1e}")
    return smaller
