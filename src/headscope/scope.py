"""Scope: what a person holds. A model under the microscope, and everything that can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.heads.look.edits import Bound, Edit
from headscope.heads.look.importance import Importance, importance
from headscope.heads.look.look import Look
from headscope.heads.look.sampling import Cuts, Sampling, cuts, draw
from headscope.models.decoding import Decoder, goes_on_from
from headscope.models.protocol import OpenModel, Token
from headscope.names import Head, ModelShape

if TYPE_CHECKING:
    from headscope.heads.pruning import Pruned
    from headscope.heads.roles.report import Report
    from headscope.heads.roles.run import Options
    from headscope.scan.census import Census
    from headscope.scan.options import ScanOptions

EMBEDDED = Path(__file__).parent / "models" / "embedded"


@dataclass(frozen=True)
class _ActiveEdit:
    """An edit inside a ``with scope.edit(…)`` block, and the scope it belongs to."""

    scope: int
    bound: Bound
    key: str


_active: ContextVar[tuple[_ActiveEdit, ...]] = ContextVar("headscope_edits", default=())


@dataclass(frozen=True)
class Generated:
    """A continuation: its tokens, its text, and the distribution at each step before and after the cuts."""

    text: str
    tokens: tuple[Token, ...]
    steps: tuple[Cuts, ...]


class Scope:
    """``scope.look(text)`` sees one text; ``with scope.edit(…)`` changes heads; closing leaves the model as it was."""

    def __init__(self, model: OpenModel, opener: Callable[[], OpenModel] | None = None) -> None:
        self.model = model
        self._opener = opener

    @property
    def shape(self) -> ModelShape:
        """Sites, heads, KV heads, widths: what the model's attention looks like from outside."""
        return self.model.shape

    @property
    def notes(self) -> Sequence[str]:
        """What to know about this model: which part is not seen, what kind of sum its head parts make."""
        return self.model.notes

    def look(self, text: Any) -> Look:
        """One text (or token ids, messages, an image or audio where the model takes them) under the microscope."""
        prepared = self.model.prepare(text)
        mine = self._edits()
        return Look(self.model, prepared, [edit.bound for edit in mine], "|".join(edit.key for edit in mine))

    @contextmanager
    def edit(self, *edits: Edit) -> Iterator[Scope]:
        """Inside the block, heads are changed: in every look and every generation of this scope, in this thread."""
        bound = tuple(_ActiveEdit(id(self), edit.bind(self.model), edit.key()) for edit in edits)
        token = _active.set(_active.get() + bound)
        try:
            yield self
        finally:
            _active.reset(token)

    def generate(self, text: Any, n_tokens: int = 40, sampling: Sampling | None = None) -> Generated:
        """Let the model go on from a text. Greedy unless told otherwise; edits are honoured."""
        inputs = goes_on_from(self.model, text, n_tokens)
        sampling = sampling or Sampling()
        mine = [edit.bound for edit in self._edits()]

        def attend(site: str, call: Call) -> Tensor:
            z = plain(call)
            for change in mine:
                z = change(site, call, z)
            return z

        decoder = Decoder(self.model, inputs, attend)
        generator = torch.Generator().manual_seed(sampling.seed)
        logits, ids, steps = decoder.first(), [], []
        for _ in range(n_tokens):
            steps.append(cuts(logits, sampling))
            ids.append(draw(logits, sampling, generator))
            if ids[-1] in self.model.end_tokens or len(ids) == n_tokens:
                break
            logits = decoder.feed(ids[-1])
        chosen = torch.tensor(ids)
        return Generated(self.model.decode(chosen), self.model.tokens_of(chosen), tuple(steps))

    def importance(self, texts: Sequence[Any], how: Literal["exact", "gradient"] = "exact") -> list[Importance]:
        """How much each head matters on these texts: exactly, or at first order from one backward pass each."""
        return importance(self.model, texts, how)

    def prune(
        self,
        *,
        keep: float | None = None,
        heads: Sequence[str | Head] | None = None,
        texts: Sequence[Any] = (),
        even: bool = False,
        by: Literal["exact", "gradient"] = "exact",
    ) -> Pruned:
        """A smaller model: ``heads`` taken out of its weights, or all but the share ``keep`` that matters on ``texts``.

        ``even`` takes as many from every layer, which most configs can say, so that transformers opens the result with
        no help. ``by`` is how heads are ranked (see ``importance``). This scope's own model stays as it is.
        """
        from headscope.heads.pruning import prune

        return prune(self.model, keep=keep, heads=heads, texts=texts, even=even, by=by)

    def heads(self, options: Options | None = None) -> Report:
        """The battery: every head's roles with score, null, interval and paper, and how many heads have none."""
        from headscope.heads.roles.run import heads

        return heads(self.model, options)

    def scan(self, corpus: Any, *, out: str | Path | None = None, options: ScanOptions | None = None) -> Census:
        """A census: every head and question over a corpus, streaming and resumable, with a progress bar."""
        from headscope.scan.options import ScanOptions
        from headscope.scan.run import scan

        return scan(self.model, corpus, out=out, options=options or ScanOptions(), opener=self._opener)

    def group(self, head: str | Head) -> list[Head]:
        """All heads that share this head's keys and values."""
        found = self.shape.find(head)
        site = self.shape.sites[found.site]
        first = found.head // site.group_size * site.group_size
        return [Head(site.name, first + index) for index in range(site.group_size)]

    def close(self) -> None:
        """Leave the model as it was found."""
        self.model.close()

    def _edits(self) -> list[_ActiveEdit]:
        return [edit for edit in _active.get() if edit.scope == id(self)]

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        shape = self.shape
        return f"Scope({shape.name}: {shape.n_heads} heads in {len(shape.sites)} sites, d_model {shape.d_model})"


def load(source: Any = None, tokenizer: Any = None, **options: Any) -> Scope:
    """Put a model under the microscope.

    ``load()`` opens the embedded model; a string names a hub model, a folder or a GGUF file; a model object (with its
    tokenizer, if it reads text) is used as it is, and left as it was found when the scope closes.
    """
    from headscope.models.huggingface.model import open_model

    source = EMBEDDED if source is None else source
    elsewhere = partial(open_model, source, tokenizer, **options) if isinstance(source, str | Path) else None
    return Scope(open_model(source, tokenizer, **options), elsewhere)
