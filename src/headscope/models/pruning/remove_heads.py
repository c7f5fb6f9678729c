"""Remove heads from the weights: a second, smaller model with the logits of the first with those heads ablated.

Which numbers of which matrix belong to a head is found by following tensors, so model families need no table. The
attributes in which a family's code keeps its head counts are found by trying, and every result is compared with the
logits of the ablated model.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations
from math import gcd
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.errors import HeadscopeError, InputError, ModelError
from headscope.files import atomic_folder
from headscope.models.huggingface.attention import implementations
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import no_progress_bar
from headscope.models.modes import own_precision
from headscope.models.pruning import pruned_modeling
from headscope.models.pruning.pruned_modeling import SCHEMA_VERSION, pruned
from headscope.models.selfcheck import fixed_seed, own_logits, own_tolerance, relative_difference
from headscope.models.structure.projections import SIDES, Which, find_projection
from headscope.names import Site


@dataclass(frozen=True)
class _PrunedSite:
    """What stays of one site: query heads, KV heads, and the index into ``kv`` of each KV head after pruning."""

    site: Site
    path: str
    heads: tuple[int, ...]
    kv: tuple[int, ...]
    kv_order: tuple[int, ...]

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Sizes that a family may keep as attributes, before and after."""
        site, n_kv = self.site, len(self.kv_order)
        return {
            "heads": (site.n_heads, len(self.heads)),
            "KV heads": (site.n_kv_heads, n_kv),
            "heads per KV head": (site.group_size, len(self.heads) // n_kv),
            "width of q": (site.n_heads * site.d_head, len(self.heads) * site.d_head),
            "width of k": (site.n_kv_heads * site.d_head, n_kv * site.d_head),
            "width of z": (site.n_heads * site.d_value, len(self.heads) * site.d_value),
        }

    @property
    def repeats_kv(self) -> bool:
        return len(self.kv_order) != len(self.kv)


def pruned_site(site: Site, path: str, heads: Sequence[int]) -> _PrunedSite:
    """Keep these query heads and the KV heads they read; where groups are uneven, some KV heads are repeated."""
    left = Counter(head // site.group_size for head in sorted(heads))
    group = gcd(*left.values())
    order = [index for index, count in enumerate(left.values()) for _ in range(count // group)]
    return _PrunedSite(site, path, tuple(sorted(heads)), tuple(left), tuple(order))


@dataclass
class _Weights:
    """The weights that stay, and what they change in their matrices."""

    state: dict[str, Tensor]
    outputs: dict[str, Tensor] = field(default_factory=dict)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    shared: dict[str, dict[str, Any]] = field(default_factory=dict)

    def matrices(self, model: nn.Module) -> dict[str, tuple[int, int]]:
        sizes = {}
        for path in {**self.outputs, **self.inputs}:
            first, second = self.state[f"{path}.weight"].shape
            sizes[path] = (first, second) if _is_conv1d(model, path) else (second, first)
        return sizes


@torch.no_grad()
@own_precision()
def remove_heads(opened: HuggingFaceModel, kept: Mapping[str, Sequence[int]]) -> tuple[HuggingFaceModel, bool]:
    """A model with only these heads at these sites, opened; and whether its config alone describes it.

    The model it comes from is not changed. What cannot be pruned is refused by name.
    """
    pruned_sites = [
        pruned_site(opened.shape.sites[name], opened.module_path(name), heads) for name, heads in kept.items()
    ]
    weights = _prune_weights(opened, pruned_sites)
    wanted = _ablated_logits(opened, kept)
    by_config = _from_config(opened, pruned_sites, weights)
    if by_config is not None and _why_different(by_config, opened, wanted) is None:
        return _reopened(opened, by_config, wanted), True
    return _reopened(opened, _from_layout(opened, pruned_sites, weights, wanted), wanted), False


def _prune_weights(opened: HuggingFaceModel, pruned_sites: Sequence[_PrunedSite]) -> _Weights:
    model = opened.model
    weights = _Weights(dict(model.state_dict()))
    owner: dict[str, str] = {}
    removed: dict[str, list[Tensor]] = {}
    for left in pruned_sites:
        name, site = left.site.name, left.site
        again = [other for other in opened.shape.sites if other != name and opened.module_path(other) == left.path]
        if again:
            raise ModelError(f"{name} is the same module as {', '.join(again)}; shared layers cannot be pruned")
        output = opened.output_path(name)
        if output.kind != "exact":
            raise ModelError(f"{name}: its heads cannot be removed, because they are mixed before W_O: {output.why}")
        assert output.matrix is not None, "output_path refuses what has no matrix"
        lost = [head for head in range(site.n_heads) if head not in left.heads]
        lost_kv = [head for head in range(site.n_kv_heads) if head not in left.kv]
        projections = _projections(opened, name)
        for which, (path, rows) in projections.items():
            removed.setdefault(path, []).extend(rows[head] for head in (lost if which == "q" else lost_kv))
        _repeat_kv(weights, left, projections)
        columns = [torch.arange(head * site.d_value, (head + 1) * site.d_value) for head in lost]
        weights.inputs[output.matrix] = _remaining(site.n_heads * site.d_value, columns)
        for path in {output.matrix, *(path for path, _ in projections.values())}:
            _check_plain(model, path, name)
            if owner.setdefault(path, name) != name:
                raise ModelError(f"{name} shares {path} with {owner[path]}; heads that share weights cannot be pruned")
    for path, rows in removed.items():
        width = weights.state[f"{path}.weight"].shape[1 if _is_conv1d(model, path) else 0]
        weights.outputs[path] = _remaining(width, rows)
    _select(model, weights)
    return weights


def _projections(opened: HuggingFaceModel, site: str) -> dict[Which, tuple[str, list[Tensor]]]:
    """Which modules compute q, k and v, and which of their outputs belong to each head."""
    found: dict[Which, tuple[str, list[Tensor]]] = {}
    for which in SIDES:
        path, _, rows = find_projection(opened, site, which)
        assert path is not None, "transformers' projections are modules"
        found[which] = path, rows
    return found


def _repeat_kv(weights: _Weights, left: _PrunedSite, projections: Mapping[Any, tuple[str, list[Tensor]]]) -> None:
    if not left.repeats_kv:
        return
    keys, values = projections["k"][0], projections["v"][0]
    if len({projections["q"][0], keys, values}) < 3:
        raise ModelError(
            f"{left.site.name}: q, k and v come from one matrix, so every KV head that stays must keep equally many "
            f"query heads; {len(left.heads)} over {len(left.kv)} KV heads are left"
        )
    for path, d_head in ((keys, left.site.d_head), (values, left.site.d_value)):
        weights.shared[path] = {"heads": list(left.kv_order), "d_head": d_head}


def _select(model: nn.Module, weights: _Weights) -> None:
    """Keep the outputs and inputs that stay."""
    for chosen, is_output in ((weights.outputs, True), (weights.inputs, False)):
        for path, kept in chosen.items():
            axes = {f"{path}.weight": int(is_output == _is_conv1d(model, path))}
            if is_output and f"{path}.bias" in weights.state:
                axes[f"{path}.bias"] = 0
            for name, axis in axes.items():
                weights.state[name] = weights.state[name].index_select(axis, kept.to(weights.state[name].device))


def _check_plain(model: nn.Module, path: str, site: str) -> None:
    matrix = model.get_submodule(path)
    kind: type = type(matrix)
    if kind is nn.Linear or _is_conv1d(model, path):
        kind = type(matrix.weight)
    if kind not in (Tensor, nn.Parameter):
        raise ModelError(
            f"{site}: {path} is a {kind.__name__}; only plain matrices, not quantised ones, can lose heads"
        )
    if any(weight.device.type == "meta" for weight in matrix.parameters()):
        raise ModelError(f"{site}: its weights are offloaded; load the model with all layers in memory")


def _is_conv1d(model: nn.Module, path: str) -> bool:
    return type(model.get_submodule(path)).__name__ == "Conv1D"


def _remaining(width: int, removed: Sequence[Tensor]) -> Tensor:
    stays = torch.ones(width, dtype=torch.bool)
    for rows in removed:
        stays[rows.cpu()] = False
    return stays.nonzero()[:, 0]


def _ablated_logits(opened: HuggingFaceModel, kept: Mapping[str, Sequence[int]]) -> Tensor:
    """Logits of the whole model on its probe inputs, with the other heads zero-ablated."""

    def ablate(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site not in kept:
            return z
        stays = torch.zeros(z.shape[1], dtype=z.dtype, device=z.device)
        stays[list(kept[site])] = 1.0
        return z * stays[None, :, None, None]

    with fixed_seed():
        return opened.run(opened.probe, ablate).logits


def _fresh_config(opened: HuggingFaceModel) -> Any:
    config = deepcopy(opened.model.config)
    for stale in ("pruned_heads", "auto_map"):
        if hasattr(config, stale):
            delattr(config, stale)
    return config


def _family(opened: HuggingFaceModel) -> type:
    """The family's class, also of a model that was pruned before."""
    kind = type(opened.model)
    return kind.__mro__[1] if kind.__module__ == pruned.__module__ else kind


def _from_config(opened: HuggingFaceModel, pruned_sites: Sequence[_PrunedSite], weights: _Weights) -> nn.Module | None:
    """The smaller model built from a config with fewer heads, if the config of this family can describe it."""
    sizes = {tuple(left.sizes[what] for what in ("heads", "KV heads")) for left in pruned_sites}
    same = len(sizes) == 1 and {left.site.name for left in pruned_sites} == set(opened.shape.sites)
    if not same or any(left.repeats_kv for left in pruned_sites) or hasattr(opened.model.config, "pruned_heads"):
        return None
    ((heads, kv_heads),) = sizes
    config = _fresh_config(opened)
    for name, value in list(vars(config).items()):
        if "head" in name and name != "head_dim" and type(value) is int:
            before, after = kv_heads if "key" in name or "kv" in name else heads
            setattr(config, name, after if value == before else value)
    config.head_dim = pruned_sites[0].site.d_head
    try:
        config = type(config).from_dict(config.to_dict())  # as a folder would be read: some families check sizes here
        return _with_weights(opened, _family(opened)(config), weights)
    except Exception:  # families raise errors of any kind where these sizes do not fit; the layout may
        return None


def _with_weights(opened: HuggingFaceModel, model: Any, weights: _Weights) -> nn.Module:
    """Load the remaining weights into a model of their size, on the device and in the precision they come from."""
    for config, ours in implementations(model):
        config._attn_implementation_internal = "sdpa" if ours == "headscope" else "eager"
    device = next(opened.model.parameters()).device
    model.load_state_dict({name: weight.clone() for name, weight in weights.state.items()}, strict=True, assign=True)
    model.tie_weights()
    return model.to(device).eval()  # type: ignore[no-any-return]


def _from_layout(
    opened: HuggingFaceModel, pruned_sites: Sequence[_PrunedSite], weights: _Weights, wanted: Tensor
) -> nn.Module:
    """The smaller model with a layout in its config. Sizes that its code keeps as attributes are found by trying."""
    first = None
    earlier = getattr(opened.model.config, "pruned_heads", None) or {}
    for attributes in _candidate_attributes(opened, pruned_sites):
        new: dict[str, dict[str, Any]] = {
            "matrices": dict(weights.matrices(opened.model)), "shared": weights.shared, "attributes": dict(attributes)
        }  # fmt: skip
        config, layout = (
            _fresh_config(opened),
            {part: {**earlier.get(part, {}), **sizes} for part, sizes in new.items()},
        )
        config.pruned_heads = {"schema_version": SCHEMA_VERSION, **layout}
        model = _with_weights(opened, pruned(_family(opened))(config), weights)
        wrong = _why_different(model, opened, wanted)
        if wrong is None:
            return model
        first = first or wrong
    where = type(opened.model.get_submodule(pruned_sites[0].path)).__name__
    raise ModelError(f"{opened.shape.name} cannot be pruned: {where} does not work with fewer heads ({first})")


def _candidate_attributes(
    opened: HuggingFaceModel, pruned_sites: Sequence[_PrunedSite]
) -> Iterator[dict[str, dict[str, int]]]:
    """Attributes to set on attention modules: none, then one, two and three of those that hold a size."""
    modules = {left.path: vars(opened.model.get_submodule(left.path)) for left in pruned_sites}
    names = sorted({name for held in modules.values() for name, value in held.items() if type(value) is int})
    choices: list[dict[str, dict[str, int]]] = []
    for name in names:
        for what in pruned_sites[0].sizes:
            if name == "layer_idx" or any(modules[s.path].get(name) != s.sizes[what][0] for s in pruned_sites):
                continue
            choice = {left.path: {name: left.sizes[what][1]} for left in pruned_sites}
            if choice not in choices:
                choices.append(choice)
    for count in range(4):
        for chosen in combinations(choices, count):
            yield {
                path: {name: size for choice in chosen for name, size in choice[path].items()}
                for path in (modules if chosen else ())
            }


def _why_different(model: nn.Module, opened: HuggingFaceModel, wanted: Tensor) -> str | None:
    """None if the model's logits on the probe inputs are the ablated model's; else what is different."""
    try:
        got = own_logits(model, opened.probe, opened.arguments)
    except Exception as error:  # a family's code can fail in any way with fewer heads
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    if got is None or got.shape != wanted.shape:
        return f"its logits have shape {None if got is None else tuple(got.shape)} instead of {tuple(wanted.shape)}"
    return _too_far(got, wanted)


def _too_far(got: Tensor, wanted: Tensor) -> str | None:
    off, allowed = relative_difference(got, wanted), own_tolerance(wanted.dtype)
    return None if off <= allowed else f"its logits are off by {off:.1e}, at most {allowed:.0e} is allowed"


def _reopened(opened: HuggingFaceModel, model: nn.Module, wanted: Tensor) -> HuggingFaceModel:
    try:
        smaller = HuggingFaceModel(model, opened.processor, opened.shape.name, opened.probe)
    except HeadscopeError as error:
        raise ModelError(f"{opened.shape.name} cannot be pruned: {error}") from error
    with fixed_seed():
        wrong = _too_far(smaller.run(opened.probe).logits, wanted)
    if wrong is not None:
        raise ModelError(f"{opened.shape.name} cannot be pruned: {wrong}")
    return smaller


LOADER = "pruned_heads"
RECIPE = "recipe.json"
_AUTO = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModel")


def save(opened: HuggingFaceModel, folder: Path, recipe: Mapping[str, Any]) -> None:
    """Write the folder. ``headscope.load(folder)`` opens it; so does transformers, as the recipe says."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already and not empty; give a new folder")
    model: Any = opened.model
    with atomic_folder(folder) as unfinished, no_progress_bar(True):
        model.save_pretrained(unfinished)
        if opened.processor.tokenizer is not None:
            opened.processor.tokenizer.save_pretrained(unfinished)
        how = "transformers opens this folder unchanged"
        if getattr(model.config, "pruned_heads", None) is not None:
            how = _write_loader(model, unfinished)
        _write(unfinished / RECIPE, {**recipe, "opens_with": f"headscope.load(folder); {how}"})


def _write_loader(model: Any, folder: Path) -> str:
    """Write a copy of ``pruned_modeling``, and name it in the config for transformers' auto classes."""
    family = type(model).__name__
    source = Path(pruned_modeling.__file__).read_text(encoding="utf-8")
    header = "# Written by headscope prune; its source is headscope/models/pruning/pruned_modeling.py.\n"
    ending = f"\n\nfrom transformers import {family}  # noqa: E402\n\nPrunedModel = pruned({family})\n"
    (folder / f"{LOADER}.py").write_text(header + source + ending, encoding="utf-8")
    auto = _auto_class(model)
    if auto is None:
        return f"in plain transformers, {LOADER}.PrunedModel.from_pretrained(folder)"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {auto: f"{LOADER}.PrunedModel"}
    _write(folder / "config.json", config)
    return f"in plain transformers, {auto}.from_pretrained(folder, trust_remote_code=True), which runs {LOADER}.py"


def _auto_class(model: Any) -> str | None:
    import transformers

    for name in _AUTO:
        mapped = getattr(transformers, name)._model_mapping.get(type(model.config), None)
        kinds = mapped if isinstance(mapped, tuple) else (mapped,)
        if any(kind is not None and isinstance(model, kind) for kind in kinds):
            return name
    return None


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
