"""What is measured of every head on a probe: five kinds, each written once.

*Attention*: the share of its attention that lands on the answer, beside the rival answer it gives most to.
*Reading*: when it reads a place, how high does it raise a token? *Share*: its direct part of a logit difference.
*Effect*: what other heads do when it is switched off. *Accuracy*: how often the word it looks at most is the right one,
beside the best fixed offset. All are numbers per input and head, the rival's beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.heads.look.attribution import frozen_norm
from headscope.heads.roles.probes.probe import Answer, Ask, Batch, Probe, Reading, WordArcs, is_encoder_decoder
from headscope.models.protocol import OpenModel, Pass
from headscope.names import Head, Site

Where = Literal["causal", "bidirectional", "cross"]
Kind = Literal["attention", "reading", "share", "effect", "accuracy"]
PerInput = Float[Tensor, "input head"]

DENSE_UP_TO = 128  # tokens: below this the whole pattern is the quickest way to many answers


@dataclass(frozen=True)
class Measured:
    """A score for every input and head (NaN where a head was not asked), and its strongest rival's."""

    scores: PerInput
    rivals: PerInput
    rival_names: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """What to collect on a probe: asks by the kind of site they are put to, readings by name, shares or not."""

    asks: Mapping[str, frozenset[Where]] = field(default_factory=dict)
    readings: frozenset[str] = frozenset()
    arcs: frozenset[str] = frozenset()
    shares: bool = False


def where(site: Site) -> Where | None:
    """Which probes can be put to a site; None for one that reads two texts at once."""
    if site.kind == "merged":
        return None
    return "cross" if site.kind == "cross" else "causal" if site.causal else "bidirectional"


def only_looks_back(model: OpenModel) -> bool:
    """Whether no head of the model sees what comes later, or another text."""
    return all(where(site) == "causal" for site in model.shape.sites.values())


class Collected:
    """The numbers of one probe, gathered batch by batch."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self.heads = tuple(heads)
        self.masses: dict[tuple[str, str], list[PerInput]] = {}
        self.readings: dict[str, list[tuple[PerInput, PerInput]]] = {}
        self.shares: list[tuple[PerInput, PerInput]] = []
        self.task: list[Float[Tensor, " input"]] = []
        self.right: dict[str, list[tuple[PerInput, PerInput]]] = {}

    def attention(self, ask: str) -> Measured:
        """The wanted mass, beside that of the rival which has most on average, head by head."""
        every = {rival: torch.cat(parts) for (name, rival), parts in self.masses.items() if name == ask}
        scores = every.pop("")
        names, masses = list(every), torch.stack(list(every.values()))
        best = masses.mean(1).nan_to_num(0.0).argmax(0)
        rivals = masses.gather(0, best.expand(1, masses.shape[1], -1))[0]
        return Measured(scores, rivals, tuple(names[index] for index in best.tolist()))

    def reading(self, name: str) -> Measured:
        scores, rivals = (torch.cat(part) for part in zip(*self.readings[name], strict=True))
        return Measured(scores, rivals, ("another token",) * len(self.heads))

    def accuracy(self, name: str) -> Measured:
        scores, rivals = (torch.cat(part) for part in zip(*self.right[name], strict=True))
        return Measured(scores, rivals, ("the best fixed offset",) * len(self.heads))

    def share(self, sign: int) -> Measured:
        scores, rivals = (torch.cat(part) for part in zip(*self.shares, strict=True))
        return Measured(sign * scores, sign * rivals, ("two absent words",) * len(self.heads))


@torch.no_grad()
def collect(model: OpenModel, probe: Probe, wanted: Wanted) -> Collected:
    """Run every batch of a probe once and keep what was asked for."""
    collected = Collected(model.shape.heads())
    for batch in probe.batches:
        seen = _Seen(model, batch, wanted)
        outputs = direct_sites(model) if wanted.shares else []
        done = model.run(batch.inputs(model), seen, outputs=outputs, residual=wanted.shares)
        for key, values in seen.masses.items():
            collected.masses.setdefault(key, []).append(join(model, values, len(batch)))
        for name in wanted.readings:
            collected.readings.setdefault(name, []).append(_readings(model, batch.readings[name], seen))
        if wanted.shares and batch.answer is not None:
            collected.shares.append(_shares(model, batch.answer, done, outputs))
        for name in wanted.arcs:
            collected.right.setdefault(name, []).append(_accuracy(batch.arcs[name], seen, name))
        graded = grade(batch, done.logits) if predicts_next(model) else None
        if graded is not None:
            collected.task.append(graded)
    return collected


@torch.no_grad()
def task_without(model: OpenModel, probe: Probe, head: Head) -> Float[Tensor, " input"]:
    """The probe's task when one head says everywhere what it says on average here."""
    graded = []
    for batch in probe.batches:
        done = model.run(batch.inputs(model), averaged(head))
        value = grade(batch, done.logits)
        assert value is not None
        graded.append(value)
    return torch.cat(graded)


def averaged(head: Head, places: Tensor | None = None) -> Callable[[str, Call], Tensor]:
    """An observer under which a head delivers its mean over this batch (at one place of each input, if given)."""

    def attend(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site != head.site:
            return z
        z = z.clone()
        mean = z[:, head.head].mean((0, 1))
        if places is None:
            z[:, head.head] = mean
        else:
            z[torch.arange(len(z)), head.head, places.to(z.device)] = mean
        return z

    return attend


def grade(batch: Batch, logits: Float[Tensor, "input token vocabulary"]) -> Float[Tensor, " input"] | None:
    """How well the model does its task, more is better: a logit difference, or mean log-probability on graded rows."""
    if batch.answer is not None:
        each = torch.arange(len(batch))
        at_end = logits[each, batch.answer.place.to(logits.device)].float().cpu()
        return at_end[each, batch.answer.right] - at_end[each, batch.answer.wrong]
    if batch.graded is None or logits.shape[1] != batch.ids.shape[1]:
        return None
    loss = F.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), batch.ids[:, 1:].flatten().to(logits.device), reduction="none"
    )
    rows = batch.graded[:, :-1].float()
    return -(loss.view(len(batch), -1).cpu() * rows).sum(1) / rows.sum(1)


class _Seen:
    """An observer that puts a batch's questions to every site they fit."""

    def __init__(self, model: OpenModel, batch: Batch, wanted: Wanted) -> None:
        self.model, self.batch, self.wanted = model, batch, wanted
        self.masses: dict[tuple[str, str], dict[str, Tensor]] = {}
        self.values: dict[str, Tensor] = {}
        self.right: dict[str, dict[str, Tensor]] = {name: {} for name in wanted.arcs}

    def __call__(self, site: str, call: Call) -> Tensor:
        known = self.model.shape.sites.get(site)
        kind = None if known is None else where(known)
        if self.wanted.readings and kind == "causal":
            self.values[site] = call.v
        if self.wanted.arcs and kind in ("causal", "bidirectional") and call.q.shape[2] == self.batch.ids.shape[1]:
            return self._find_words(site, call)
        asks = {name: self.batch.asks[name] for name, kinds in self.wanted.asks.items() if kind in kinds}
        asks = {name: ask for name, ask in asks.items() if _fits(ask, call)}
        if not asks:
            return plain(call)
        questions = {
            f"{name}\n{rival}": question
            for name, ask in asks.items()
            for rival, question in {"": ask.wanted, **ask.rivals}.items()
        }
        backend = "dense" if max(call.q.shape[2], call.k.shape[2]) <= DENSE_UP_TO else None
        seen = observe(
            call.q, call.k, call.v, scores=call.scores, questions=questions, statistics=frozenset(), backend=backend
        )
        for name, ask in asks.items():
            rows = ask.rows(len(self.batch))[:, None].to(seen.logsumexp.device)
            for rival in ("", *ask.rivals):
                mass = (seen.mass[f"{name}\n{rival}"] * rows).sum(2)
                self.masses.setdefault((name, rival), {})[site] = mass.float().cpu()
        return seen.output

    def _find_words(self, site: str, call: Call) -> Tensor:
        """For every arc, whether the word that gets most is the wanted one."""
        seen = observe(call.q, call.k, call.v, scores=call.scores, statistics=frozenset())
        weights = seen.weights().float().cpu()
        for name in self.wanted.arcs:
            self.right[name][site] = _strongest_word(weights, self.batch.arcs[name])
        return seen.output


def join(model: OpenModel, by_site: Mapping[str, Tensor], n_inputs: int) -> PerInput:
    """Every head of the model in order; NaN where its site was not asked."""
    parts = [
        by_site.get(name, torch.full((n_inputs, site.n_heads), float("nan")))
        for name, site in model.shape.sites.items()
    ]
    return torch.cat(parts, dim=1)


def direct_sites(model: OpenModel) -> list[str]:
    """Causal sites whose heads can be split exactly enough through W_O."""
    found = []
    for name, site in model.shape.sites.items():
        if where(site) != "causal":
            continue
        try:
            if model.output_weight(name).kind != "mixed":
                found.append(name)
        except ModelError:
            continue
    return found


def predicts_next(model: OpenModel) -> bool:
    """Whether the model goes on from a text, so that its next tokens can be graded."""
    return model.shape.vocabulary is not None and only_looks_back(model)


def why_no_logits(model: OpenModel) -> str | None:
    """Why heads' parts cannot be followed to the logits; None if they can."""
    if model.shape.vocabulary is None:
        return "it predicts no tokens"
    if is_encoder_decoder(model):
        return "it writes a text of its own; this probe is for models that continue one"
    try:
        model.unembedding()
    except ModelError as error:
        return str(error)
    return None if direct_sites(model) else "no site of it can be split through W_O"


def _fits(ask: Ask, call: Call) -> bool:
    return ask.wanted.query.shape[1] == call.q.shape[2] and ask.wanted.key.shape[1] == call.k.shape[2]


def _reading_directions(model: OpenModel, tokens: Tensor, residual: Tensor | None) -> Float[Tensor, "... d_model"]:
    """What a part has to point along to raise these tokens: rows of W_U seen through the final norm's gain."""
    end = model.unembedding()
    gain, centred = frozen_norm(end.norm, torch.ones(end.weight.shape[1]) if residual is None else residual)
    along = end.weight[tokens.to(end.weight.device)].float() * gain.to(end.weight.device)
    return along - along.mean(-1, keepdim=True) if centred else along


def _readings(model: OpenModel, reading: Reading, seen: _Seen) -> tuple[PerInput, PerInput]:
    """For the right and the wrong token: the share of candidates that reading the place raises less.

    A head that raises some tokens whatever it reads says nothing by it, so each candidate's mean is taken away.
    """
    along = _reading_directions(model, reading.candidates, torch.randn(model.shape.d_model, generator=_dice()))
    each = torch.arange(len(reading.places))[:, None]
    right, wrong = (torch.searchsorted(reading.candidates.sort().values, t) for t in (reading.right, reading.wrong))
    along = along[reading.candidates.argsort().to(along.device)]
    scores, rivals = {}, {}
    for name in direct_sites(model):
        site, values = model.shape.sites[name], seen.values.get(name)
        if values is None or values.shape[2] != seen.batch.ids.shape[1]:
            continue
        read = values.repeat_interleave(site.group_size, dim=1)[each, :, reading.places.to(values.device)].float()
        writes = model.output_weight(name).weight.float() @ along.T.to(values.device)
        raised = torch.einsum("nphd,hdc->nphc", read, writes).cpu()
        raised = raised - raised.mean((0, 1))
        scores[name], rivals[name] = _rank(raised, right), _rank(raised, wrong)
    return join(model, scores, len(each)), join(model, rivals, len(each))


def _rank(raised: Float[Tensor, "input place head candidate"], token: Tensor) -> PerInput:
    index = token[:, :, None, None].expand(-1, -1, raised.shape[2], 1)
    own = raised.gather(-1, index)
    below = (raised < own).float().mean(-1) + (raised == own).float().mean(-1) / 2
    return below.mean(1)


def _shares(model: OpenModel, answer: Answer, done: Pass, sites: Sequence[str]) -> tuple[PerInput, PerInput]:
    """Each head's part of (right − wrong), over the sizes of all heads' parts; and of two absent words."""
    residual = done.residual
    if residual is None:
        raise ModelError("the input of the final norm was not seen, so a logit cannot be split over heads")
    n, each = len(answer.place), torch.arange(len(answer.place))
    gain_at = residual[0, answer.place[0]]
    asked = [
        _reading_directions(model, a, gain_at) - _reading_directions(model, b, gain_at)
        for a, b in ((answer.right, answer.wrong), (answer.absent[:, 0], answer.absent[:, 1]))
    ]
    found = []
    for along in asked:
        parts = {}
        for name in sites:
            x = done.outputs[name].x[each, answer.place.to(done.outputs[name].x.device)].float()
            written = torch.einsum("nhd,hdm->nhm", x, model.output_weight(name).weight.float())
            parts[name] = torch.einsum("nhm,nm->nh", written, along.to(written.device)).cpu()
        found.append(join(model, parts, n))
    size = found[0].abs().nansum(1, keepdim=True).clamp(min=1e-12)
    return found[0] / size, found[1] / size


def _strongest_word(weights: Float[Tensor, "input head query key"], arcs: WordArcs) -> Float[Tensor, "arc head"]:
    """1 where the other word with most of the row's attention is the wanted one. Tokens of no word do not count."""
    rows, words = weights[arcs.item, :, arcs.row], arcs.words[arcs.item]
    own = words.gather(1, arcs.row[:, None])
    others = ((words >= 0) & (words != own))[:, None].float()
    n_words = int(arcs.words.max()) + 1
    index = words.clamp(min=0)[:, None].expand(-1, rows.shape[1], -1)
    by_word = torch.zeros(len(rows), rows.shape[1], n_words).scatter_add_(2, index, rows * others)
    most = by_word.max(2)
    return ((most.indices == arcs.wanted[:, None]) & (most.values > 0)).float()


def _accuracy(arcs: WordArcs, seen: _Seen, name: str) -> tuple[PerInput, PerInput]:
    """Means over each input's arcs; inputs without one are left out."""
    counts = torch.bincount(arcs.item, minlength=len(seen.batch)).float()
    have = counts > 0

    def mean(values: Float[Tensor, "arc head"]) -> PerInput:
        sums = torch.zeros(len(counts), values.shape[1]).index_add_(0, arcs.item, values)
        return (sums / counts[:, None])[have]

    scores = join(seen.model, {site: mean(values) for site, values in seen.right[name].items()}, int(have.sum()))
    return scores, mean(arcs.by_offset[:, None].float()).expand_as(scores)


def _dice() -> torch.Generator:
    return torch.Generator().manual_seed(0)
