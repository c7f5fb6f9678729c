"""Activation cache of a look: q, k, z and the residual stream within a budget; heads are observed when asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import Any
from weakref import WeakMethod

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention import pattern
from headscope.attention.backends.fused.flash import interpreted
from headscope.attention.backends.fused.layers import refuse_layer
from headscope.attention.backends.waiting_layers import Ask, ObservedLayer, WaitingLayers
from headscope.attention.engine import observe
from headscope.attention.observation import Observation, Rows
from headscope.attention.observer import Call
from headscope.attention.progress import report_progress
from headscope.attention.questions import Question
from headscope.attention.scores import Scores
from headscope.errors import InputError
from headscope.heads.edits.edit import Edits
from headscope.heads.look.layer_cache import LayerCache
from headscope.models.finite import PassCheck
from headscope.models.modes import change_count, device_of, hooked, own_precision
from headscope.models.protocol import KEEP, ForwardPass, SiteObserver
from headscope.models.recording import OpenModel, note_logsumexp
from headscope.models.structure.points import Point, values_at

BUDGET = 2**30  # bytes of q, k, z and layer states that a look keeps; past it they are computed again when asked for

MOST_LOGITS = 2**28  # bytes of the logits of all positions; past it those of a position are made when asked for

SiteQuestions = Callable[[str, tuple[int, int], torch.device], dict[str, Question]]
"""Given a site, its numbers of queries and keys and a device, the questions to ask there."""


@dataclass(frozen=True)
class SiteActivations:
    """One site's statistics per row, and q and k, from which patterns are recomputed, while they are kept."""

    rows: Rows
    scores: Scores
    value_norms: Float[Tensor, "kv key"]
    kept: tuple[Tensor, Tensor] | None


@dataclass(frozen=True)
class _Unobserved:
    """A site whose heads nobody has asked about yet."""

    q: Tensor
    k: Tensor
    scores: Scores
    value_norms: Float[Tensor, "kv key"]
    sources: dict[int, pattern.PatternSource] = field(default_factory=dict)
    """Of heads whose pattern was asked for, which needs no statistics."""


class ActivationCache:
    """Activations of one text under edits: one pass for predictions, z and what statistics are computed from."""

    def __init__(self, model: OpenModel, inputs: Mapping[str, Tensor], edits: Edits) -> None:
        self.model, self.inputs, self.edits = model, inputs, edits
        self.reached: dict[str, tuple[int, int]] = {}
        """Queries and keys of every site that this text reached, in order."""
        self.n_windows: dict[str, int] = {}
        """How many windows (tiles, frames) a site splits its input into, each attending on its own."""
        self.sites: dict[str, SiteActivations | ObservedLayer] = {}
        self.logits: Float[Tensor, "batch query vocabulary"] | None = None
        """Of all positions; of a text that has too many, ``_end`` is kept instead."""
        self._end: Float[Tensor, "batch query d_model"] | None = None
        """The end of the residual stream, from which logits are made."""
        self.bytes = 0
        self._waiting: tuple[WaitingLayers, int] | None = None
        self._unobserved: dict[str, _Unobserved] = {}
        self._z: dict[str, Tensor] = {}
        """z of sites that wait, or are not observed yet."""
        self._questions: SiteQuestions = lambda *_: {}
        self.at_once = False
        """Whether heads are observed in the pass, which costs less than later where all of them will be asked about."""
        self._layers: LayerCache | None = None
        self._changes: int | None = None
        """How often the weights had been changed when the text was read."""

    def read(self, questions: SiteQuestions) -> None:
        """Run the pass; keep the logits, and q, k and z of each site while they fit.

        Statistics of a site are computed when one is asked for. On a GPU the sites of a short text wait, and theirs
        are computed together. A site that does not fit is observed in the pass.
        """
        observer = partial(self.keep_site, questions=questions)
        if device_of(self.model.model).type != "cpu" or interpreted():
            waiting = WaitingLayers([on_cpu(questions)])
            observer = partial(self._keep_or_wait, questions=questions, waiting=waiting)
        with self._keeping_states(), torch.no_grad():
            self.refuse_changed_weights()
            last = self._too_many_logits()
            inputs = {**self.inputs, KEEP: torch.tensor([-1])} if last else self.inputs
            done = self.edits.run(inputs, observer, residual=last)
        self._end = done.residual
        if self._end is None:
            self.keep(done.logits)
            if not self.edits:
                self.model.refuse_other_output(self.inputs, done.logits)

    def wait(self, waiting: WaitingLayers, text: int, z: Mapping[str, Tensor]) -> None:
        """Leave these sites to ``waiting``, in which this text has the number ``text``; keep their z."""
        self._waiting = (waiting, text)
        self._z.update(z)

    def fits(self, size: int) -> bool:
        """Whether this many more bytes are within the budget; if so, they are counted."""
        if self.bytes + size > BUDGET:
            return False
        self.bytes += size
        return True

    def keep_site(self, site: str, call: Call, questions: SiteQuestions) -> Tensor:
        """Return z of one attention call under the edits, and keep what its heads are observed from."""
        self._reach(site, call)  # before the questions, which are about its positions
        self._questions = _weakly(questions)
        report_progress("reading the text", len(self.reached) - 1, len(self.model.shape.sites))
        scores, norms = self.edits.scores(site, call), call.v[0].float().norm(dim=-1)
        size = size_in_bytes(call.q, call.k) + call.q[..., 0].numel() * call.v.shape[-1] * call.v.element_size()
        fits = self.fits(size)
        if fits and not self.at_once:
            z = self.edits.attend(site, call)
            self._z[site] = z.detach()
            self._unobserved[site] = _Unobserved(call.q.detach(), call.k.detach(), scores, norms)
            return z
        asked = questions(site, self.reached[site], call.q.device)
        seen = observe(call.q, call.k, call.v, scores=scores, questions=asked)
        note_logsumexp(site, seen.logsumexp)
        z = self.edits.z(site, call, seen.output)
        rows = _rows(seen, z.detach() if fits else z.new_empty(*z.shape[:3], 0))
        self.sites[site] = SiteActivations(rows, seen.scores, norms, (seen.q, seen.k) if fits else None)
        return z

    def _keep_or_wait(self, site: str, call: Call, questions: SiteQuestions, waiting: WaitingLayers) -> Tensor:
        bound = call.scores.bind(call.q, call.k)
        refused = self.edits.changes_scores or refuse_layer(call.q, call.k, call.v, bound) is not None
        if refused or not self.fits(size_in_bytes(call.q, call.k, call.v, call.q)):
            return self.keep_site(site, call, questions)
        self._reach(site, call)
        report_progress("reading the text", len(self.reached) - 1, len(self.model.shape.sites))
        z = self.edits.attend(site, call)
        waiting.add(site, call.q, call.k, call.v, bound)
        self.wait(waiting, 0, {site: z.detach()})
        return z

    @own_precision()
    def site(self, name: str) -> SiteActivations | ObservedLayer:
        """One site's activations, observed now if they were not before."""
        if self._waiting is not None:
            self._observe_waiting(*self._waiting)
        if name in self._unobserved:
            kept = self._unobserved[name]
            device = kept.q.device
            asked = self._questions(name, self.reached[name], device)
            values = kept.k if device.type == "cuda" else kept.k[..., :1]  # z is known, and a CPU need not sum it again
            seen = observe(kept.q, kept.k, values, scores=kept.scores, questions=asked)
            self._verify([((name,), seen.logsumexp[None])])
            del self._unobserved[name]
            rows = _rows(seen, self._z.pop(name))
            self.sites[name] = SiteActivations(rows, seen.scores, kept.value_norms, (seen.q, seen.k))
        return self.sites[name]

    def _observe_waiting(self, waiting: WaitingLayers, text: int) -> None:
        waited = {site: z for site, z in self._z.items() if site not in self._unobserved}
        seen = {site: waiting.observed(site, text, z) for site, z in waited.items()}
        self._verify(waiting.unchecked)
        waiting.unchecked.clear()
        self.sites.update(seen)
        self._waiting = None
        self._z = {site: z for site, z in self._z.items() if site in self._unobserved}

    def _verify(self, found: Sequence[tuple[Sequence[str], Tensor]]) -> None:
        # scores are computed in float64 for models in float64 alone
        dtype = next((each.dtype for _, each in found), torch.float32)
        check = PassCheck(self.model.shape.name, dtype=dtype)
        for sites, logsumexp in found:
            check.see_logsumexp(sites, logsumexp)
        check.verify()

    def attend(self, site: str, call: Call) -> Tensor:
        """Compute z under the edits; observe nothing."""
        self._reach(site, call)
        return self.edits.attend(site, call)

    def keep(self, logits: Tensor) -> None:
        """Keep the logits that a pass, perhaps of a padded batch, gave for this text."""
        self.refuse_changed_weights()
        self.logits = logits
        self.bytes += size_in_bytes(logits)

    def source(self, site: str, head: int | None = None) -> pattern.PatternSource:
        """q, k and log-sum-exp of a site, or of one head, from which any part of its patterns is recomputed."""
        if head is not None and site in self._unobserved:
            kept = self._unobserved[site]
            if head not in kept.sources:
                kv, bound = head // (kept.q.shape[1] // kept.k.shape[1]), kept.scores.bind(kept.q, kept.k)
                q, k = kept.q[:, head : head + 1], kept.k[:, kv : kv + 1]
                kept.sources[head] = pattern.PatternSource.of(q, k, bound.only(head))
            return kept.sources[head]
        seen = self.site(site)
        q, k = seen.kept if seen.kept is not None else self.recompute(site)[:2]
        return pattern.PatternSource(q, k, seen.rows.logsumexp, seen.scores).only(head)

    def recompute(self, site: str) -> tuple[Tensor, Tensor, Tensor]:
        """Recompute q, k and z of a site that were not kept: run from the nearest kept layer up to the site."""
        if self._layers is not None and self._layers.outputs:
            with self._layers.skipping_below(site):
                found = self._up_to(site)
            if self._is_what_was_seen(site, found):
                return found
            self._layers.outputs.clear()  # a family whose layers hand on more than their state
        return self._up_to(site)

    def z(self, site: str) -> Float[Tensor, "batch head query d_value"]:
        """z of a site under the edits."""
        z = self.sites[site].rows.output if site in self.sites else self._z.get(site)
        return z if z is not None and z.numel() else self.recompute(site)[2]

    def logits_at(self, place: int) -> Float[Tensor, " vocabulary"]:
        """The logits after one position: those that are kept, else made from the end of the residual stream there."""
        if self._end is not None:
            return self.from_end(self._end[0, place][None])[0]
        assert self.logits is not None, "a look is read before it is given to anybody"
        return self.logits[0, place]

    @torch.no_grad()
    def from_end(self, rows: Float[Tensor, "row d_model"]) -> Float[Tensor, "row vocabulary"]:
        """The model's own logits of these values at the end of the residual stream.

        What follows the stream acts on each position by itself: the values are put in its place, one at each of the
        first positions of this text, and the model goes on with its own norm, W_U and whatever comes after.
        """
        end = self.model.unembedding_input()
        assert end is not None, "the end of the stream was found"
        self.refuse_changed_weights()

        def put(module: Any, args: Any, kwargs: Any) -> Any:
            stream = args[0].clone()
            stream[0, : len(rows)] = rows.to(stream)
            return (stream, *args[1:]), kwargs

        inputs = {"input_ids": self.inputs["input_ids"][:, : len(rows)]} if self._reads_text_only() else self.inputs
        with hooked([end], before=put):
            return self.model.run(inputs).logits[0, : len(rows)]

    def _reads_text_only(self) -> bool:
        return set(self.inputs) == {"input_ids"}

    def _too_many_logits(self) -> bool:
        """Whether not to keep the logits of all positions: of a long text, if the model can make them of one."""
        if not self._reads_text_only() or KEEP not in self.model.takes or self.model.unembedding_input() is None:
            return False
        tokens = self.inputs["input_ids"].numel()
        return tokens * (self.model.shape.vocabulary or 0) * self._number_size() > MOST_LOGITS

    def values_at(self, points: Sequence[Point]) -> dict[Point, Tensor]:
        """The values at these points, under the edits, from one more pass."""
        self.refuse_changed_weights()
        with self.edits.during():
            return values_at(self.model, self.inputs, points, self.attend)

    def run(self) -> ForwardPass:
        """Run the pass again; keep nothing."""
        return self._pass(self.attend)

    def _pass(self, observer: SiteObserver) -> ForwardPass:
        """Run the model, inside what the edits need."""
        self.refuse_changed_weights()
        return self.edits.run(self.inputs, observer)

    def refuse_changed_weights(self) -> None:
        """Refuse to compute anything more once the weights are not those that read the text."""
        changes = change_count(self.model.model)
        self._changes = changes if self._changes is None else self._changes
        if changes != self._changes:
            raise InputError(
                f"{self.model.shape.name}: its weights have been changed since this text was read, and the look "
                "has not kept what is asked for; look at the text again"
            )

    def _keeping_states(self) -> AbstractContextManager[None]:
        """Where q, k and z of all sites will not fit, keep as many layer outputs as do."""
        ids, sites = self.inputs.get("input_ids"), self.model.shape.sites.values()
        if ids is None or self.edits.follows:  # layers that are skipped write nothing
            return nullcontext()
        width = self._number_size()
        by_token = sum(site.n_heads * (site.d_head + site.d_value) + site.n_kv_heads * site.d_head for site in sites)
        if by_token * ids.shape[1] * width <= BUDGET:
            return nullcontext()
        self._layers = LayerCache(self.model)
        state = self._size_of_state()
        room, wanted = BUDGET // max(state, 1), len(self._layers.stack) - 1
        if not room or wanted < 1:
            return nullcontext()
        self.bytes += min(room, wanted) * state
        return self._layers.recording(every=-(-wanted // room))

    def _size_of_state(self) -> int:
        """Bytes of the residual stream between two layers; 0 if the inputs are not tokens."""
        ids = self.inputs.get("decoder_input_ids", self.inputs.get("input_ids"))
        return 0 if ids is None else self.model.shape.d_model * ids.shape[1] * self._number_size()

    def _number_size(self) -> int:
        """Bytes per number of the model's activations."""
        weights = (weight for weight in self.model.model.parameters() if weight.is_floating_point())
        return next((weight.element_size() for weight in weights), 4)

    def _up_to(self, site: str) -> tuple[Tensor, Tensor, Tensor]:
        caught: list[tuple[Tensor, Tensor, Tensor]] = []

        def see(name: str, call: Call) -> Tensor:
            z = self.attend(name, call)
            if name == site:
                caught.append((call.q, call.k, z))
                raise _ReachedError
            return z

        with torch.no_grad(), suppress(_ReachedError):
            self._pass(see)
        return caught[0]

    def _is_what_was_seen(self, site: str, found: tuple[Tensor, Tensor, Tensor]) -> bool:
        """The last row's weights add up to one only with the log-sum-exp of the same q and k."""
        seen = self.site(site)
        if seen.scores.sinks is not None:
            return False
        source = pattern.PatternSource(found[0], found[1], seen.rows.logsumexp, seen.scores)
        total = pattern.weights(source, slice(-1, None), slice(None)).double().sum(-1)
        return bool(((total - 1.0).abs() < 1e-2).all())

    def _reach(self, site: str, call: Call) -> None:
        self.reached[site], self.n_windows[site] = (call.q.shape[2], call.k.shape[2]), call.q.shape[0]


def on_cpu(questions: SiteQuestions) -> Ask:
    """Questions with labels on the CPU, for layers that wait: nothing waits for the GPU there.

    A look's own method is held _weakly: layers that wait belong to the look, and nothing is asked of one that is gone.
    """
    held = _weakly(questions)
    return lambda site, sizes: held(site, sizes, torch.device("cpu"))


def _weakly(questions: SiteQuestions) -> SiteQuestions:
    """Questions of a look that is not kept alive by what keeps them; none of one that is gone."""
    held = WeakMethod(questions) if isinstance(questions, MethodType) else lambda: questions

    def ask(site: str, sizes: tuple[int, int], device: torch.device) -> dict[str, Question]:
        found = held()
        return {} if found is None else found(site, sizes, device)

    return ask


def _rows(seen: Observation, z: Tensor) -> Rows:
    return Rows(z, seen.logsumexp, seen.entropy, seen.distance, seen.strongest, dict(seen.mass))


def size_in_bytes(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class _ReachedError(Exception):
    """Ends a forward pass early."""
