"""Verify one model class: equal logits, head parts, statistics and ablation, on a tiny random model."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor

from headscope.attention import observe
from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.inputs.dummy_inputs import BATCH, probe_inputs
from headscope.models.loading import open_model
from headscope.models.modes import hooked
from headscope.models.protocol import OutputWeight
from headscope.models.recording import OpenModel
from headscope.models.selfcheck import fixed_seed, own_logits, relative_difference
from headscope.models.structure.recorder import record_stream
from tests.conformance.families import Job
from tests.conformance.inputs import probe_for
from tests.conformance.module_claims import output_kind, row_gap, verify_module, verify_outputs
from tests.conformance.shrink import VOCABULARY, redraw, tiny_config
from tests.conformance.special import CHANGES
from tests.conformance.splits import TOLERANCE as SPLIT_TOLERANCE
from tests.conformance.splits import edges_of, split_of

LENGTH, TARGET, PADDED = 40, 24, 11
TOLERANCE = 1e-4


@dataclass
class Verdict:
    """The result for one class. ``state``: verified, refused, wrong, or cannot be built."""

    job: Job
    state: str
    why: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    sites: int = 0
    not_observed: str = ""
    traits: list[str] = field(default_factory=list)
    seam: str = "interface"
    """How its attention is reached: transformers' attention interface, or marker values."""
    split: str = ""
    """Whether scores are split over writers at every site: verified or refused."""
    split_why: str = ""


def build(job: Job) -> torch.nn.Module:
    """A tiny random model of this class."""
    torch.manual_seed(0)
    kind = getattr(transformers, job.kind)
    config = tiny_config(job.model_type, kind, CHANGES.get(job.kind) or CHANGES.get(job.model_type))
    model = kind(config).eval().float()
    redraw(model)
    return model


def verify(job: Job) -> Verdict:
    """Build the model, open it, and verify every claim."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = build(job)
        except Exception as error:  # a config shrunk by rule can fail in any way
            return Verdict(job, "cannot be built", f"{type(error).__name__}: {_first_line(error)}")
        try:
            opened = open_model(model, probe=probe_for(model, job))
        except ModelError as error:
            state = "cannot be built" if "did not run on the inputs" in str(error) else "refused"
            return Verdict(job, state, _first_line(error))
        except Exception as error:
            return Verdict(job, "cannot be built", f"{type(error).__name__}: {_first_line(error)}")
        try:
            return _verified(job, opened) if isinstance(opened, HuggingFaceModel) else _verified_by_markers(job, opened)
        except TimeoutError:  # too slow for the sweep is not wrong
            raise
        except Exception as error:
            return Verdict(job, "wrong", f"{type(error).__name__}: {_first_line(error)}")
        finally:
            opened.close()


def _verified(job: Job, opened: HuggingFaceModel) -> Verdict:
    verdict = Verdict(job, "verified", sites=len(opened.shape.sites))
    verdict.not_observed = "; ".join(note for note in opened.notes if "not observed" in note)
    plain_inputs = probe_for(opened.model, job, LENGTH, TARGET) or _same_kind(opened)
    cases = {"plain": plain_inputs}
    padded = left_padded(opened, plain_inputs)
    if padded is not None:
        cases["padded"] = padded
    for name, inputs in cases.items():
        verdict.errors[name] = _equal(opened, inputs)
    verdict.errors["parts"] = _parts(opened, plain_inputs, verdict)
    verdict.errors["statistics"] = _statistics(opened, cases.get("padded", plain_inputs))
    ablated = _ablated(opened, plain_inputs)
    if ablated is not None:
        verdict.errors["ablation"] = ablated
    _note_split(verdict, opened, plain_inputs)
    wrong = {name: error for name, error in verdict.errors.items() if not error <= TOLERANCE}
    if wrong:
        verdict.state, verdict.why = "wrong", ", ".join(f"{name} {error:.1e}" for name, error in wrong.items())
    return verdict


def _verified_by_markers(job: Job, opened: OpenModel) -> Verdict:
    """A model that came in by the second seam, on inputs of another length than it was opened with."""
    assert isinstance(opened, AnyTorchModel)
    verdict = Verdict(job, "verified", sites=len(opened.shape.sites), seam="markers")
    verdict.not_observed = "; ".join(note for note in opened.notes if "not observed" in note)
    inputs = probe_for(opened.model, job, LENGTH, TARGET) or _same_kind(opened)
    verdict.errors = verify_module(opened, inputs)
    padded = left_padded(opened, inputs)
    if padded is not None:
        verdict.errors["padded"] = verify_outputs(opened, padded, padded["attention_mask"].bool())
    for site in opened.shape.sites:
        verdict.sums[output_kind(opened, site)] = verdict.sums.get(output_kind(opened, site), 0) + 1
    _note_split(verdict, opened, inputs)
    wrong = {name: error for name, error in verdict.errors.items() if not error <= TOLERANCE}
    if wrong:
        verdict.state, verdict.why = "wrong", ", ".join(f"{name} {error:.1e}" for name, error in wrong.items())
    return verdict


def _note_split(verdict: Verdict, opened: OpenModel, inputs: dict[str, Tensor]) -> None:
    verdict.split, verdict.split_why, error = split_of(opened, inputs)
    if verdict.split == "wrong":
        verdict.errors["split"] = error / SPLIT_TOLERANCE * TOLERANCE
    edges = edges_of(opened, inputs)
    if edges is not None:
        verdict.errors["all edges"] = edges


def _same_kind(opened: HuggingFaceModel | AnyTorchModel) -> dict[str, Tensor]:
    """Longer inputs of the kind that the model was opened with."""
    guesses = probe_inputs(opened.model, LENGTH, TARGET)
    return next(guess for guess in guesses if set(guess) == set(opened.probe))


def left_padded(opened: HuggingFaceModel | AnyTorchModel, inputs: dict[str, Tensor]) -> dict[str, Tensor] | None:
    """The same inputs, the first item padded on the left; None where a model reads no attention mask."""
    ids = inputs.get("input_ids")
    if ids is None or "attention_mask" not in opened.takes or ids.shape[1] <= PADDED or len(ids) != BATCH:
        return None
    mask = torch.ones_like(ids)
    mask[0, :PADDED] = 0
    end = getattr(opened.model.config.get_text_config(), "eos_token_id", None)
    if isinstance(end, int) and end < (opened.shape.vocabulary or VOCABULARY):
        ids = ids.clone()
        ids[:, -1] = end  # models that pool where a text ends must not pool a padded row
    return {**inputs, "input_ids": ids, "attention_mask": mask}


def _equal(opened: HuggingFaceModel, inputs: dict[str, Tensor]) -> float:
    """How far our logits are from the model's own, on real tokens."""
    own = own_logits(opened.model, inputs, opened.arguments)
    assert own is not None
    with torch.no_grad(), fixed_seed():
        ours = opened.run(inputs).logits
    mask = inputs.get("attention_mask")
    if mask is not None and ours.shape[:2] == mask.shape:
        ours, own = ours[mask.bool()], own[mask.bool()]
    return relative_difference(ours, own)


def _parts(opened: HuggingFaceModel, inputs: dict[str, Tensor], verdict: Verdict) -> float:
    """Σ over heads of x_h W_O[h] + b against W_O's output, over all sites that can be split.

    x is what a recorded pass says W_O read: z itself, where it is W_O's input.
    """
    able: dict[str, OutputWeight] = {}
    for site in opened.shape.sites:
        with suppress(ModelError):
            able[site] = opened.output_weight(site)
        kind = able[site].kind if site in able else "none"
        verdict.sums[kind] = verdict.sums.get(kind, 0) + 1
    kept: dict[str, Tensor] = {}
    made: dict[int, list[Tensor]] = {}

    def keep(site: str, call: Call) -> Tensor:
        kept[site] = plain(call)
        return kept[site]

    def after(module: torch.nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        made.setdefault(id(module), []).append(output)

    matrices = {site: opened.output_matrix(site) for site in able}
    with hooked(set(matrices.values()), after=after), torch.no_grad(), fixed_seed():
        read = record_stream(opened, inputs, keep).read_by_w_o
    worst = 0.0
    for site, weight in able.items():
        if site not in kept:
            continue
        x = read[site]
        total = torch.einsum("bqhd,hdm->bqm", x.double(), weight.weight.double())
        total = total if weight.bias is None else total + weight.bias.double()
        own = made[id(matrices[site])]
        if len(own) == 1:
            worst = max(worst, row_gap(total, own[0].double()))
        worst = max(worst, relative_difference(total, opened.apply_output_weight(site, x).double()))
        if weight.kind == "exact" and weight.layout != "other":
            worst = max(worst, relative_difference(kept[site].transpose(1, 2), x))
    return worst


def _statistics(opened: HuggingFaceModel, inputs: dict[str, Tensor]) -> float:
    """Streaming statistics against those read off the dense pattern, at every site."""
    worst = [0.0]

    def compare(site: str, call: Call) -> Tensor:
        ways = ("blockwise", "dense")
        streamed, dense = (observe(call.q, call.k, call.v, scores=call.scores, backend=name) for name in ways)
        pairs = [
            (streamed.entropy, dense.entropy),
            (streamed.logsumexp, dense.logsumexp),
            (streamed.output, dense.output),
        ]
        pairs.append((streamed.distance.mean, dense.distance.mean))
        for one, other in pairs:
            one, other = one.nan_to_num(neginf=0.0), other.nan_to_num(neginf=0.0)
            worst[0] = max(worst[0], float((one - other).abs().max()) / (1 + float(other.abs().max())))
        return plain(call)

    with torch.no_grad():
        opened.run(inputs, compare)
    return worst[0]


def _ablated(opened: HuggingFaceModel, inputs: dict[str, Tensor]) -> float | None:
    """A head ablated through the observer against its slice of W_O's input zeroed by hand, at one exact site."""
    exact = [site for site in opened.shape.sites if _kind(opened, site) == "exact" and "@" not in site]
    repeated = {site.partition("@")[0] for site in opened.shape.sites if "@" in site}
    target = next((site for site in exact if site not in repeated and not opened.output_path(site).why), None)
    if target is None:
        return None
    head, d_value = 1 % opened.shape.sites[target].n_heads, opened.shape.sites[target].d_value

    def ablate(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site == target:
            z = z.clone()
            z[:, head] = 0
        return z

    def by_hand(module: torch.nn.Module, args: Any) -> tuple[Any, ...]:
        x = args[0].clone()
        x[..., head * d_value : (head + 1) * d_value] = 0
        return (x, *args[1:])

    with torch.no_grad():
        with fixed_seed():
            ours = opened.run(inputs, ablate).logits
        hook = opened.model.get_submodule(str(opened.output_path(target).matrix)).register_forward_pre_hook(by_hand)
        try:
            with fixed_seed():
                hand = opened.run(inputs).logits
        finally:
            hook.remove()
    return relative_difference(ours, hand)


def _kind(opened: HuggingFaceModel, site: str) -> str:
    try:
        return opened.output_weight(site).kind
    except ModelError:
        return "none"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]
