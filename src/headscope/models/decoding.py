"""Generate token by token, with a KV cache where the model has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.attention.progress import setting
from headscope.errors import InputError
from headscope.models.finite import finish
from headscope.models.protocol import SiteObserver
from headscope.models.recording import OpenModel

DECODER_INPUTS = "decoder_input_ids"

continues: ContextVar[bool] = ContextVar("headscope_continues", default=False)
"""Whether this pass reads one more token, after those in a KV cache."""


def generation_inputs(model: OpenModel, text: Any, n_tokens: int) -> Mapping[str, Tensor]:
    """Return the inputs to generate ``n_tokens`` from; reject models that do not generate, and texts too long."""
    name, shape = model.shape.name, model.shape
    if n_tokens < 1:
        raise InputError(f"n_tokens={n_tokens}: ask for at least one token")
    if shape.vocabulary is None:
        raise InputError(f"{name} predicts no tokens, so it cannot generate")
    inputs = model.prepare(text).inputs
    causal = any(site.causal and site.kind != "cross" for site in shape.sites.values())
    if DECODER_INPUTS not in inputs and not causal:
        raise InputError(
            f"{name} is bidirectional: it predicts the token at a position and does not generate; "
            "scope.look(text).predictions(position) shows what it predicts there"
        )
    length = inputs[DECODER_INPUTS if DECODER_INPUTS in inputs else "input_ids"].shape[1]
    if shape.context is not None and length + n_tokens - 1 > shape.context:
        most = shape.context - length + 1
        raise InputError(
            f"{length} tokens and {n_tokens} more exceed the {shape.context} that {name} can read; ask for at most "
            f"{most}, or shorten the text"
        )
    return inputs


class Decoder:
    """Generates one continuation. Its KV cache is its own, so no two edits share one."""

    def __init__(
        self,
        model: OpenModel,
        inputs: Mapping[str, Tensor],
        observer: SiteObserver,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Every pass runs inside ``during()``."""
        self.model, self.observer, self.during = model, _with_positions(model, observer), during
        self.inputs = dict(inputs)
        self.name = DECODER_INPUTS if DECODER_INPUTS in inputs else "input_ids"
        once = not any("@" in site for site in model.shape.sites)  # a module that is called twice has one place in it
        self.keeps_cache = once and bool(getattr(getattr(model.model, "config", None), "use_cache", False))
        self._cache: object | None = None

    def first(self) -> Float[Tensor, " vocabulary"]:
        """Logits after the prompt."""
        return self._step(self.inputs)

    def feed(self, token: int) -> Float[Tensor, " vocabulary"]:
        """Logits after one more token."""
        ids = self.inputs[self.name]
        new = torch.tensor([[token]], device=ids.device)
        self.inputs[self.name] = torch.cat((ids, new), dim=1)
        if "attention_mask" in self.inputs and self.name == "input_ids":
            mask = self.inputs["attention_mask"]
            self.inputs["attention_mask"] = torch.cat((mask, mask.new_ones(1, 1)), dim=1)
        if self._cache is None:
            return self._step(self.inputs)
        with setting(continues, True):
            return self._step({**self.inputs, self.name: new, "past_key_values": self._cache})

    def _step(self, inputs: Mapping[str, object]) -> Float[Tensor, " vocabulary"]:
        if not self.keeps_cache:
            with torch.no_grad(), self.during():
                return self.model.run(self.inputs, self.observer).logits[0, -1]
        with torch.no_grad(), self.during(), self.model.observing(self.observer) as check:
            output = self.model.model(**inputs, use_cache=True)
            self._cache = getattr(output, "past_key_values", None)
            logits: Tensor = output.logits[0, -1]
            check.see_logits(logits)
        finish(check)
        return logits


def _with_positions(model: OpenModel, observer: SiteObserver) -> SiteObserver:
    """Observe one generation: its calls know the positions of their queries and keys in the text.

    The lengths of q and k do not: in cross-attention they are of two texts, and a sliding window's cache drops keys. An
    encoder or a vision tower reads its whole input again in every step.
    """
    read: dict[str, int] = {}

    def attend(site: str, call: Call) -> Tensor:
        n_query, n_key = call.q.shape[2], call.k.shape[2]
        goes_on = continues.get() and n_query == 1 and not site.startswith("encoder")
        first = read.get(site, 0) if goes_on else 0
        read[site] = first + n_query
        if first:
            is_cross = model.shape.sites[site].kind == "cross"
            call = replace(call, first_query=first, first_key=0 if is_cross else max(0, first + n_query - n_key))
        return observer(site, call)

    return attend
