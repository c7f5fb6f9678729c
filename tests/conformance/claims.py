"""What is claimed of every family, tried on one tiny model: equal, splits, measures, and obeys."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor

from headscope.attention import observe
from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.inputs.dummy_inputs import BATCH, probe_inputs
from headscope.models.loading import open_source
from headscope.models.selfcheck import difference, own_answer, same_dice
from tests.conformance.families import Job
from tests.conformance.inputs import probe_for
from tests.conformance.shrink import VOCABULARY, redraw, tiny_config
from tests.conformance.special import CHANGES

LENGTH, TARGET, PADDED = 40, 24, 11
TOLERANCE = 1e-4


@dataclass
class Verdict:
    """What came of one class. ``state``: verified, refused, wrong, or cannot be built."""

    job: Job
    state: str
    why: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    sites: int = 0
    unseen: str = ""
    traits: list[str] = field(default_factory=list)


def build(job: Job) -> torch.nn.Module:
    """A tiny random model of this class."""
    torch.manual_seed(0)
    kind = getattr(transformers, job.kind)
    config = tiny_config(job.model_type, kind, CHANGES.get(job.kind) or CHANGES.get(job.model_type))
    model = kind(config).eval().float()
    redraw(model)
    return model


def examine(job: Job) -> Verdict:
    """Build it, open it, and hold every claim against it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = build(job)
        except Exception as error:  # anything may go wrong in a config shrunk by rule
            return Verdict(job, "cannot be built", f"{type(error).__name__}: {_line(error)}")
        try:
            opened = open_source(model, probe=probe_for(model, job))
        except ModelError as error:
            state = "cannot be built" if "did not run on the inputs" in str(error) else "refused"
            return Verdict(job, state, _line(error))
        except Exception as error:
            return Verdict(job, "cannot be built", f"{type(error).__name__}: {_line(error)}")
        assert isinstance(opened, HuggingFaceModel)
        try:
            return _hold(job, opened)
        except Exception as error:
            return Verdict(job, "wrong", f"{type(error).__name__}: {_line(error)}")
        finally:
            opened.close()


def _hold(job: Job, opened: HuggingFaceModel) -> Verdict:
    verdict = Verdict(job, "verified", sites=len(opened.shape.sites))
    verdict.unseen = "; ".join(note for note in opened.notes if "not seen" in note)
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
    wrong = {name: error for name, error in verdict.errors.items() if not error <= TOLERANCE}
    if wrong:
        verdict.state, verdict.why = "wrong", ", ".join(f"{name} {error:.1e}" for name, error in wrong.items())
    return verdict


def _same_kind(opened: HuggingFaceModel) -> dict[str, Tensor]:
    """Longer inputs of the kind that the model was opened with."""
    guesses = probe_inputs(opened.model, LENGTH, TARGET)
    return next(guess for guess in guesses if set(guess) == set(opened.probe))


def left_padded(opened: HuggingFaceModel, inputs: dict[str, Tensor]) -> dict[str, Tensor] | None:
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
    """How far our answer is from the model's own, on real tokens."""
    own = own_answer(opened.model, inputs, opened.quiet)
    assert own is not None
    with torch.no_grad(), same_dice():
        ours = opened.run(inputs).logits
    mask = inputs.get("attention_mask")
    if mask is not None and ours.shape[:2] == mask.shape:
        ours, own = ours[mask.bool()], own[mask.bool()]
    return difference(ours, own)


def _parts(opened: HuggingFaceModel, inputs: dict[str, Tensor], verdict: Verdict) -> float:
    """Σ over heads of x_h W_O[h] + b against what W_O gave, over all sites that can be split.

    Where z is said to be W_O's very input, W_O's answer to a z that was kept is held against it too.
    """
    able = []
    for site in opened.shape.sites:
        try:
            kind = opened.output_weight(site).kind
            able.append(site)
        except ModelError:
            kind = "none"
        verdict.sums[kind] = verdict.sums.get(kind, 0) + 1
    kept: dict[str, Tensor] = {}

    def keep(site: str, call: Call) -> Tensor:
        kept[site] = plain(call)
        return kept[site]

    with torch.no_grad():
        seen = opened.run(inputs, keep, outputs=able)
    worst = 0.0
    for site, out in seen.outputs.items():
        weight = opened.output_weight(site)
        total = torch.einsum("bqhd,hdm->bqm", out.x.double(), weight.weight.double())
        total = total if weight.bias is None else total + weight.bias.double()
        worst = max(worst, difference(total, out.output.double()))
        again = opened.written(site, kept[site])
        if again is not None:
            worst = max(worst, difference(again.x, out.x), difference(again.output, out.output))
    return worst


def _statistics(opened: HuggingFaceModel, inputs: dict[str, Tensor]) -> float:
    """Streaming statistics against those read off the dense pattern, at every site."""
    worst = [0.0]

    def see(site: str, call: Call) -> Tensor:
        ways = ("blockwise", "dense")
        seen, dense = (observe(call.q, call.k, call.v, scores=call.scores, backend=name) for name in ways)
        pairs = [(seen.entropy, dense.entropy), (seen.logsumexp, dense.logsumexp), (seen.output, dense.output)]
        pairs.append((seen.distance.mean, dense.distance.mean))
        for one, other in pairs:
            one, other = one.nan_to_num(neginf=0.0), other.nan_to_num(neginf=0.0)
            worst[0] = max(worst[0], float((one - other).abs().max()) / (1 + float(other.abs().max())))
        return plain(call)

    with torch.no_grad():
        opened.run(inputs, see)
    return worst[0]


def _ablated(opened: HuggingFaceModel, inputs: dict[str, Tensor]) -> float | None:
    """A head silenced through the observer against its slice of W_O's input zeroed by hand, at one exact site."""
    exact = [site for site in opened.shape.sites if _kind(opened, site) == "exact" and "@" not in site]
    repeated = {site.partition("@")[0] for site in opened.shape.sites if "@" in site}
    target = next((site for site in exact if site not in repeated and not opened.output_path_of(site).why), None)
    if target is None:
        return None
    head, d_value = 1 % opened.shape.sites[target].n_heads, opened.shape.sites[target].d_value

    def silence(site: str, call: Call) -> Tensor:
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
        with same_dice():
            ours = opened.run(inputs, silence).logits
        hook = opened.model.get_submodule(str(opened.output_path_of(target).matrix)).register_forward_pre_hook(by_hand)
        try:
            with same_dice():
                hand = opened.run(inputs).logits
        finally:
            hook.remove()
    return difference(ours, hand)


def _kind(opened: HuggingFaceModel, site: str) -> str:
    try:
        return opened.output_weight(site).kind
    except ModelError:
        return "none"


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]
