"""Verify a module opened by marker values, by means of its own: hooks, copies and the dense pattern."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention import observe
from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.any_torch.compiled import without_fast_path
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.selfcheck import fixed_seed, relative_difference
from headscope.models.structure.recorder import record_stream
from headscope.models.structure.sites import logits_of


def verify_module(opened: AnyTorchModel, inputs: Mapping[str, Tensor]) -> dict[str, float]:
    """The largest error of each claim, over all sites that these inputs reach."""
    errors = {"plain": verify_outputs(opened, inputs)}
    errors["parts"], errors["statistics"] = _parts_and_statistics(opened, inputs)
    ablated = _ablated(opened, inputs)
    return errors if ablated is None else {**errors, "ablation": ablated}


def own_output(opened: AnyTorchModel, model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """What a module gives by itself, or a copy of it: no mode is on."""
    with torch.no_grad(), fixed_seed(), without_fast_path(model):
        return logits_of(opened.arguments.call(model, inputs))


def verify_outputs(opened: AnyTorchModel, inputs: Mapping[str, Tensor], real: Tensor | None = None) -> float:
    """How far our outputs are from the module's own, on real positions."""
    own = own_output(opened, opened.model, inputs)
    with torch.no_grad(), fixed_seed():
        ours = opened.run(inputs, lambda _, call: plain(call)).logits
    if real is not None and real.shape == own.shape[:2]:
        ours, own = ours[real], own[real]
    return relative_difference(ours, own)


def _parts_and_statistics(opened: AnyTorchModel, inputs: Mapping[str, Tensor]) -> tuple[float, float]:
    """Head parts against the output that a hook on W_O's module saw; statistics against the dense pattern."""
    sites = [site for site in opened.shape.sites if output_kind(opened, site) != "none"]
    matrices = {site: matrix for site in sites if (matrix := _matrix(opened, site)) is not None}
    seen: dict[int, list[Tensor]] = {}
    hooks = [
        matrix.register_forward_hook(
            lambda module, _, output: seen.setdefault(id(module), []).append(_first(output).clone())
        )
        for matrix in {id(matrix): matrix for matrix in matrices.values()}.values()
    ]
    worst = [0.0]

    def compare(site: str, call: Call) -> Tensor:
        worst[0] = max(worst[0], _statistics(call))
        return plain(call)

    try:
        with torch.no_grad(), fixed_seed():
            read = record_stream(opened, inputs, compare).read_by_w_o
    finally:
        for hook in hooks:
            hook.remove()
    parts = 0.0
    for site in set(sites) & set(read):
        weight = opened.output_weight(site)
        total = torch.einsum("bqhd,hdm->bqm", read[site].double(), weight.weight.double())
        total = total if weight.bias is None else total + weight.bias.double()
        take, owns = opened.learned_site(site).takes[0], seen.get(id(matrices.get(site)), [])
        whole = len(take.order) == len(take.weight)  # W_O may take more than this site's heads
        if whole and len(owns) == 1 and isinstance(owns[0], Tensor) and owns[0].numel() == total.numel():
            parts = max(parts, row_gap(total, owns[0].double()))
        parts = max(parts, relative_difference(total, opened.apply_output_weight(site, read[site]).double()))
    return parts, worst[0]


def _first(output: Any) -> Tensor:
    """A module's output; I-BERT's matrices return the scale of their integers beside it."""
    first: Tensor = output[0] if isinstance(output, tuple) else output
    return first


def row_gap(total: Tensor, output: Tensor) -> float:
    """Head parts against a matrix's output, whose rows may be in another order than the queries of z.

    Rows in another order than batch first or query first are compared by their sums and the sums of their squares.
    """
    width = total.shape[-1]
    own = (output if output.shape[-1] == width else output.movedim(1, -1)).reshape(-1, width)
    gaps = [relative_difference(t.reshape(-1, width), own) for t in (total, total.transpose(0, 1))]
    ours = total.reshape(-1, width)
    sums = [(ours.sum(0), own.sum(0)), (ours.square().sum(0), own.square().sum(0))]
    return min(*gaps, max(relative_difference(a, b) for a, b in sums))


def _statistics(call: Call) -> float:
    streamed, dense = (
        observe(call.q, call.k, call.v, scores=call.scores, backend=name) for name in ("blockwise", "dense")
    )
    pairs = [(streamed.entropy, dense.entropy), (streamed.logsumexp, dense.logsumexp), (streamed.output, dense.output)]
    pairs.append((streamed.distance.mean, dense.distance.mean))
    gaps = [(a.nan_to_num(neginf=0.0), b.nan_to_num(neginf=0.0)) for a, b in pairs]
    return max(float((a - b).abs().max()) / (1 + float(b.abs().max())) for a, b in gaps)


def _ablated(opened: AnyTorchModel, inputs: Mapping[str, Tensor]) -> float | None:
    """A head off through the observer, against its rows of W_O set to zero in a copy, at the first site that can."""
    used: list[str] = []
    names = {id(parameter): name for name, parameter in opened.model.named_parameters()}
    for site in opened.shape.sites:
        used += [names.get(id(take.parameter), "") for take in opened.learned_site(site).takes]
    target = next(
        (s for s in opened.shape.sites if output_kind(opened, s) == "exact" and _alone(opened, s, used)), None
    )
    if target is None:
        return None
    take, learned = opened.learned_site(target).takes[0], opened.learned_site(target)
    head, d = 1 % learned.n_heads, learned.shape[-1]

    def ablate(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site == target:
            z = z.clone()
            z[:, head] = 0.0
        return z

    by_hand = copy.deepcopy(opened.model)
    parameter = by_hand.get_parameter(names[id(take.parameter)])
    rows = take.order[head * d : (head + 1) * d]
    with torch.no_grad(), fixed_seed():
        if take.weight.shape == take.parameter.shape and take.weight.stride() == take.parameter.stride():
            parameter[rows] = 0.0
        elif parameter.ndim == 3 and parameter.shape[:2].numel() == len(take.weight):  # [head, d_head, d_model]
            parameter.view(len(take.weight), -1)[rows] = 0.0
        else:  # a Linear or a convolution: [out, in, …]
            parameter.view(parameter.shape[0], -1)[:, rows] = 0.0
        ours = opened.run(inputs, ablate).logits
    return relative_difference(ours, own_output(opened, by_hand, inputs))


def _alone(opened: AnyTorchModel, site: str, used: list[str]) -> bool:
    """Whether no other call uses this site's W_O, and it is a parameter."""
    names = {id(parameter): name for name, parameter in opened.model.named_parameters()}
    name = names.get(id(opened.learned_site(site).takes[0].parameter), "")
    return name != "" and used.count(name) == 1


def _matrix(opened: AnyTorchModel, site: str) -> nn.Module | None:
    try:
        return opened.output_matrix(site)
    except ModelError:
        return None


def output_kind(opened: AnyTorchModel, site: str) -> str:
    """How the head parts of a site add up; "none" where they cannot be split."""
    try:
        return opened.output_weight(site).kind
    except ModelError:
        return "none"
