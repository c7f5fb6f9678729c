"""Run a model on rules: replace the patterns of heads by their mixtures, in any text and while generating.

A description that explains .7 of a head is run for .7 of it; the rest is the head's mean z over the texts of the fit.
One that explains nothing is then a mean ablation. With the mixture alone a head reads wrong tokens for what is not
explained, and that costs more than a mean does.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from headscope.attention.observer import Call
from headscope.errors import EditError
from headscope.heads.look.edits import EditFunction
from headscope.heads.look.padded_batch import NotOneBatchError
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules.mixture import Drawn, Mixture, rules_used
from headscope.heads.rules.report import Rules
from headscope.heads.rules.rule import Rule, Targeted
from headscope.heads.rules.sampled_rows import AT_ONCE, CELLS, visible_hash
from headscope.heads.rules.short_context import ShortContext, pattern_rows, read_short_context
from headscope.models.protocol import OpenModel
from headscope.models.structure.sites import input_embedding
from headscope.names import Head, HeadName


@dataclass(frozen=True)
class Follow:
    """Replace the patterns of heads by what their rules say of the text that is read."""

    rules: Rules
    heads: tuple[Head, ...]
    how: str = "rules"

    def bind(self, model: OpenModel) -> EditFunction:
        tokens = _TokenReader(model)
        followed: dict[str, dict[int, _Followed]] = {}
        for head in self.heads:
            found = model.shape.find(head)
            followed.setdefault(found.site, {})[found.head] = _Followed.of(self.rules, found, self.how)
        mixtures = [each.mixture for site in followed.values() for each in site.values()]
        used = rules_used(mixtures, self.rules.known())
        short = [site for site, each in followed.items() if any(one.mixture.in_context for one in each.values())]
        drawing = _Drawing(used, model, short)

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            if site not in followed:
                return z
            ids = tokens.read(call)
            if len(ids) > 1 and len(ids) != len(z):
                raise NotOneBatchError  # which of the texts this call is about is not known here
            z = z.clone()
            for item in range(len(z)):
                with tokens.untouched():
                    drawing.read(ids[item if len(ids) > 1 else 0])
                _replace(z[item], (site, call, item), followed[site], drawing)
            return z

        weakref.finalize(change, tokens.close)
        return change

    def key(self) -> str:
        return f"follow({','.join(map(str, self.heads))};{self.how};{hash(self.rules.heads)})"


def follow(rules: Rules, heads: HeadName | Sequence[HeadName] | None = None, how: str = "rules") -> Follow:
    """Let heads, or all that have rules, follow them.

    ``how`` is ``"rules"``, ``"table"`` (with a class table), ``"context"`` (in short context, too: one more pass over
    each text), ``"position"`` (position alone), or ``"first"`` (the first token only).
    """
    if heads is None:
        chosen = [head.head for head in rules]
    elif isinstance(heads, str | Head) or (isinstance(heads, tuple) and isinstance(heads[-1], int)):
        chosen = [Head.parse(heads)]
    else:
        chosen = [Head.parse(head) for head in heads]
    for head in chosen:
        rules.mixture(head, how)
    return Follow(rules, tuple(chosen), how)


class _Followed(NamedTuple):
    """What a head runs on: a mixture for the share that it explains, and its mean z for the rest."""

    mixture: Mixture
    share: float
    mean_z: Float[Tensor, " d_value"]

    @classmethod
    def of(cls, rules: Rules, head: Head, how: str) -> _Followed:
        mean_z = torch.tensor(rules[head].mean_z)
        share = min(1.0, max(0.0, rules.explained(head, how)))
        # files of earlier versions have no means: there the mixture is all
        return cls(rules.mixture(head, how), share if len(mean_z) else 1.0, mean_z if len(mean_z) else torch.zeros(1))


def _replace(z: Tensor, at: tuple[str, Call, int], followed: dict[int, _Followed], drawing: _Drawing) -> None:
    """Set z of these heads for one batch item, a few rows at a time."""
    site, call, item = at
    n_query, n_key = call.q.shape[2], call.k.shape[2]
    group = call.q.shape[1] // call.k.shape[1]
    mask = call.scores.bind(call.q, call.k).mask
    keys = torch.arange(n_key, device=z.device)
    for part in torch.split(torch.arange(n_query, device=z.device), max(1, CELLS // (AT_ONCE * n_key))):
        visible = mask.block(part, keys, n_key - n_query)
        seen = pad(visible[min(item, len(visible) - 1), 0].expand(len(part), -1), (call.first_key, 0))
        drawn = drawing.drawn(part + call.first_query, seen)
        context = drawing.context(site, part + call.first_query)
        for head, (mixture, share, mean_z) in followed.items():
            own = None if context is None else context[head]
            weights = drawn.mixture(mixture, own)[:, call.first_key :].to(call.v)
            by_rules = weights @ call.v[item, head // group]
            z[head, part] = torch.lerp(mean_z.to(z), by_rules.to(z), share)


class _Drawing:
    """Distributions of the rules in use, kept from one site to the next while the text stays the same."""

    def __init__(self, used: Sequence[Rule], model: OpenModel, short: Sequence[str]) -> None:
        self._used, self._model, self._short = used, model, short
        self._read: tuple[tuple[int, ...], TokenFeatures, ShortContext] | None = None
        self._targeted: tuple[TokenFeatures, Targeted] | None = None
        self._drawn: tuple[Any, Drawn] | None = None

    def read(self, ids: Int[Tensor, " token"]) -> None:
        """Take these tokens as the text; where some head needs it, run them in short context."""
        key = tuple(ids.tolist())
        if self._read is None or self._read[0] != key:
            inputs = self._model.prepare(list(key)).inputs if self._short else {}
            context = read_short_context(self._model, inputs, len(key), self._short) if self._short else {}
            self._read = (key, TokenFeatures.of(self._model.processor.tokens_of(ids)), context)

    def context(self, site: str, rows: Int[Tensor, " row"]) -> Float[Tensor, "head row key"] | None:
        """Rows of this site's patterns in short context, where some head needs them."""
        assert self._read is not None
        call = self._read[2].get(site)
        return None if call is None else pattern_rows(call, rows)[0]

    def drawn(self, rows: Int[Tensor, " row"], visible: Tensor) -> Drawn:
        assert self._read is not None
        features = self._read[1]
        key = (id(features), int(rows[0]), len(rows), visible_hash(visible))
        if self._drawn is None or self._drawn[0] != key:
            if self._targeted is None or self._targeted[0] is not features:
                self._targeted = (features, Targeted(self._used, features, rows.device))
            self._drawn = (key, Drawn(self._used, features, rows, visible, self._targeted[1]))
        return self._drawn[1]


class _TokenReader:
    """Reads the ids of the running pass at the input embedding; with a KV cache, adds them to those before."""

    def __init__(self, model: OpenModel) -> None:
        embedding = input_embedding(model.model)
        if embedding is None or any(site.kind == "cross" for site in model.shape.sites.values()):
            raise EditError(
                f"{model.shape.name}: rules follow the tokens of a text, and here there is no one embedding"
            )
        self._new: ContextVar[Tensor | None] = ContextVar("headscope_new_tokens", default=None)
        self._all: ContextVar[Tensor | None] = ContextVar("headscope_tokens", default=None)
        self._handle = embedding.register_forward_pre_hook(self._note)

    def close(self) -> None:
        self._handle.remove()

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Forget what passes inside this block read."""
        new, known = self._new.get(), self._all.get()
        try:
            yield
        finally:
            self._new.set(new)
            self._all.set(known)

    def read(self, call: Call) -> Int[Tensor, "batch token"]:
        """The ids of the text up to the last key of this call."""
        new, length = self._new.get(), call.first_key + call.k.shape[2]
        if new is not None:
            before = self._all.get()
            self._all.set(torch.cat((before, new), dim=1) if call.first_query and before is not None else new)
            self._new.set(None)
        found = self._all.get()
        if found is None or found.shape[1] < length:
            raise EditError(f"rules are followed on tokens, and of {length} positions some have none")
        return found[:, :length]

    def _note(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        ids = args[0] if args else None
        if isinstance(ids, Tensor) and ids.ndim == 2 and not ids.is_floating_point():
            self._new.set(ids.detach().cpu())
