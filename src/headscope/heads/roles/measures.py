"""The four measures of a head on a probe, each per input and head, next to the same number for a rival.

*Attention*: the mass on the wanted keys, beside the rival question that gets most. *Reading*: the rank of a token under
the head's OV circuit. *Share*: the head's direct part of a logit difference. *Effect*: what other heads attend to when
it is ablated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.heads.roles.probes.probe import (
    AttentionKind,
    Batch,
    LogitDifference,
    OVRanking,
    Probe,
    ProbeQuestion,
    attention_kind,
    is_causal,
    is_encoder_decoder,
)
from headscope.heads.roles.task import run_batch, task_scores
from headscope.models.recording import OpenModel
from headscope.models.structure.carry import Route
from headscope.models.structure.readers import probed, value_of
from headscope.models.structure.recorded_pass import NO_END, head_shares, logit_direction, reading_gradients
from headscope.models.structure.recorder import RecordedStream, recording_stream
from headscope.models.structure.unembedding import through_frozen_norm

Measure = Literal["attention", "reading", "share", "effect"]
Requested = Mapping[tuple[Measure, str], frozenset[AttentionKind]]
"""What to measure on a probe: each measure with its name, and the kinds of attention that it is taken of."""
PerInput = Float[Tensor, "input head"]
Advance = Callable[[int], None]
"""Called with the number of tokens just processed."""

DENSE_UP_TO = 128  # tokens: below this the whole pattern is the quickest way to many answers
RIVALS = {"reading": "another token", "share": "two absent words"}


@dataclass(frozen=True)
class Measurement:
    """A score for every input and head (NaN where a head was not measured), and its strongest rival's."""

    scores: PerInput
    rivals: PerInput
    rival_names: tuple[str, ...]
    wins: Bool[Tensor, " head"] | None = None
    """Whether a head wins every stratum of the inputs; None where there are no strata."""


class ProbeResults:
    """The measurements of one probe, gathered batch by batch."""

    def __init__(self) -> None:
        self.masses: dict[tuple[str, str], list[PerInput]] = defaultdict(list)
        self.pairs: dict[tuple[Measure, str], list[tuple[PerInput, PerInput]]] = defaultdict(list)
        self.strata: dict[str, list[Tensor]] = defaultdict(list)
        self.opponents: dict[str, str] = {}
        self.task_scores: list[Float[Tensor, " input"]] = []

    def measurement(self, measure: Measure, of: str) -> Measurement:
        """Scores and rivals of all inputs; for attention, the rival question with most mass on average, per head."""
        if measure != "attention":
            scores, rivals = (torch.cat(part) for part in zip(*self.pairs[measure, of], strict=True))
            return Measurement(scores, rivals, (RIVALS[measure],) * scores.shape[1])
        every = {rival: torch.cat(parts) for (name, rival), parts in self.masses.items() if name == of}
        scores = every.pop("")
        wins = None
        if of in self.opponents:
            ahead, strata = scores - every[self.opponents[of]], torch.cat(self.strata[of])
            wins = torch.stack([ahead[strata == each].mean(0) for each in torch.unique(strata)]).gt(0).all(0)
        names, masses = list(every), torch.stack(list(every.values()))
        best = masses.mean(1).nan_to_num(0.0).argmax(0)
        rivals = masses.gather(0, best.expand(1, masses.shape[1], -1))[0]
        return Measurement(scores, rivals, tuple(names[index] for index in best.tolist()), wins)


@torch.no_grad()
def run_probe(model: OpenModel, probe: Probe, requested: Requested, advance: Advance = lambda _: None) -> ProbeResults:
    """Run every batch of a probe once and take the requested measures."""
    results = ProbeResults()
    shares = any(measure == "share" for measure, _ in requested)
    for batch in probe.batches:
        observer = _ProbeObserver(model, batch, requested)
        with recording_stream(model) if shares else nullcontext(RecordedStream()) as stream:
            done, at = run_batch(model, batch, observer)
        for name, question in batch.questions.items():
            if question.strata is not None:
                results.strata[name].append(question.strata)
                results.opponents[name] = question.opponent
        for key, masses in observer.masses.items():
            results.masses[key].append(by_head(model, masses, len(batch)))
        for measure, name in requested:
            if measure == "reading":
                pair = _ov_ranks(model, batch.ov_rankings[name], observer)
            elif measure == "share" and batch.logit_difference is not None:
                pair = _logit_shares(model, batch.logit_difference, stream, -1 if name == "-" else 1)
            else:
                continue
            results.pairs[measure, name].append(pair)
        scores = task_scores(batch, done.logits, at) if predicts_next_token(model) else None
        if scores is not None:
            results.task_scores.append(scores)
        advance(batch.ids.numel())
    return results


class _ProbeObserver:
    """Put a batch's questions to every site that they fit, and keep the values that OV rankings need."""

    def __init__(self, model: OpenModel, batch: Batch, requested: Requested) -> None:
        self.model, self.batch, self.requested = model, batch, requested
        self.masses: dict[tuple[str, str], dict[str, Tensor]] = defaultdict(dict)
        self.values: dict[str, Tensor] = {}

    def __call__(self, site: str, call: Call) -> Tensor:
        known = self.model.shape.sites.get(site)
        kind = None if known is None else attention_kind(known)
        if kind == "causal" and any(measure == "reading" for measure, _ in self.requested):
            self.values[site] = call.v
        asked = {
            name: self.batch.questions[name]
            for (measure, name), kinds in self.requested.items()
            if measure == "attention" and kind in kinds and _fits(self.batch.questions[name], call)
        }
        if not asked:
            return plain(call)
        questions = {
            f"{name}\n{rival}": question
            for name, each in asked.items()
            for rival, question in {"": each.wanted, **each.rivals}.items()
        }
        backend = "dense" if max(call.q.shape[2], call.k.shape[2]) <= DENSE_UP_TO else None
        seen = observe(
            call.q, call.k, call.v, scores=call.scores, questions=questions, statistics=frozenset(), backend=backend
        )
        for name, each in asked.items():
            rows = each.row_weights(len(self.batch))[:, None].to(seen.logsumexp.device)
            for rival in ("", *each.rivals):
                self.masses[name, rival][site] = (seen.mass[f"{name}\n{rival}"] * rows).sum(2).float().cpu()
        return seen.output


def by_head(model: OpenModel, by_site: Mapping[str, Tensor], n_inputs: int) -> PerInput:
    """Every head of the model in order; NaN where its site was not measured."""
    parts = [
        by_site.get(name, torch.full((n_inputs, site.n_heads), float("nan")))
        for name, site in model.shape.sites.items()
    ]
    return torch.cat(parts, dim=1)


def direct_sites(model: OpenModel) -> list[str]:
    """Causal sites whose output can be split over heads through W_O."""
    found = []
    for name, site in model.shape.sites.items():
        try:
            if attention_kind(site) == "causal" and model.output_weight(name).kind != "mixed":
                found.append(name)
        except ModelError:
            continue
    return found


def predicts_next_token(model: OpenModel) -> bool:
    """Whether the model is a causal language model."""
    return model.shape.vocabulary is not None and is_causal(model)


def why_no_logit_attribution(model: OpenModel) -> str | None:
    """Why heads' outputs cannot be followed to the logits; None if they can."""
    if model.shape.vocabulary is None:
        return "it predicts no tokens"
    if is_encoder_decoder(model):
        return "its decoder writes a separate text; this probe is for models that continue one"
    try:
        model.unembedding()
    except ModelError as error:
        return str(error)
    if probed(model).final is None:
        return NO_END
    return None if direct_sites(model) else "no site of it can be split through W_O"


def _fits(question: ProbeQuestion, call: Call) -> bool:
    return (question.wanted.query.shape[1], question.wanted.key.shape[1]) == (call.q.shape[2], call.k.shape[2])


def _ov_ranks(model: OpenModel, ranking: OVRanking, observer: _ProbeObserver) -> tuple[PerInput, PerInput]:
    """Rank the right and the wrong token under each head's OV circuit: the share of candidates that it raises less.

    A head that raises some tokens whatever it attends to says nothing by it, so each candidate's mean is subtracted.
    """
    residual = torch.randn(model.shape.d_model, generator=torch.Generator().manual_seed(0))
    end = model.unembedding()
    along = through_frozen_norm(end.norm, residual, end.weight[ranking.candidates.to(end.weight.device)].float())
    each = torch.arange(len(ranking.positions))[:, None]
    right, wrong = (
        (ranking.candidates == tokens[..., None]).int().argmax(-1) for tokens in (ranking.right, ranking.wrong)
    )
    scores, rivals = {}, {}
    for name in direct_sites(model):
        site, values = model.shape.sites[name], observer.values.get(name)
        if values is None or values.shape[2] != observer.batch.ids.shape[1]:
            continue
        read = values.repeat_interleave(site.group_size, dim=1)[each, :, ranking.positions.to(values.device)].float()
        written = model.output_weight(name)
        reading = through_frozen_norm(written.post_norm, residual, along.to(values.device))
        circuit = written.weight.float() @ reading.T
        raised = torch.einsum("nphd,hdc->nphc", read, circuit).cpu()
        raised = raised - raised.mean((0, 1))
        scores[name], rivals[name] = _rank(raised, right), _rank(raised, wrong)
    return by_head(model, scores, len(each)), by_head(model, rivals, len(each))


def _rank(raised: Float[Tensor, "input position head candidate"], token: Tensor) -> PerInput:
    own = raised.gather(-1, token[:, :, None, None].expand(-1, -1, raised.shape[2], 1))
    below = (raised < own).float().mean(-1) + (raised == own).float().mean(-1) / 2
    return below.mean(1)


def _logit_shares(
    model: OpenModel, target: LogitDifference, stream: RecordedStream, sign: int
) -> tuple[PerInput, PerInput]:
    """Each head's part of (right − wrong) over the sum of all heads' absolute parts; and of two absent tokens."""
    if stream.final is None:
        raise ModelError(f"{NO_END}, so a logit cannot be split over heads")
    n, route, direct = len(target.position), Route(stream.final), direct_sites(model)
    ends = value_of(stream.final)[torch.arange(n), target.position]
    found = []
    for pairs in (torch.stack((target.right, target.wrong), 1), target.absent):
        along = torch.stack([logit_direction(model, *each) for each in zip(ends, pairs.tolist(), strict=True)])

        def read(whole: Tensor, along: Tensor = along) -> Tensor:
            return (whole[torch.arange(n), target.position] * along.to(whole)).sum()

        gradients = reading_gradients(route, read)
        parts = {
            source.heads.site: head_shares(source.heads, gradient, n).cpu()
            for source, gradient in gradients.items()
            if source.heads is not None and source.heads.site in direct
        }
        found.append(by_head(model, parts, n))
    size = sign * found[0].abs().nansum(1, keepdim=True).clamp(min=1e-12)
    return found[0] / size, found[1] / size
