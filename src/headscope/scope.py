"""Scope: an opened model and everything that can be done with it. ``headscope.load`` gives one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from headscope.attention.progress import progress_callback, report_progress, showing
from headscope.checked import checked
from headscope.errors import EditError, InputError
from headscope.heads.edits.edit import BoundEdit, Edit, EditFunction, Edits, of_function
from headscope.heads.explain import qk_ov_circuits
from headscope.heads.explain.qk_ov_circuits import Compositions, FactoredMatrix, Through
from headscope.heads.look.importance import Importances, Target, importance
from headscope.heads.look.look import Look
from headscope.heads.look.padded_batch import ComparedLengths, NotOneBatchError, read_in_one_batch
from headscope.heads.look.sampling import Cuts, Sampling, Steps, draw
from headscope.heads.short import short_ablation
from headscope.heads.step_looks import StepLooks
from headscope.models.decoding import Decoder, generation_inputs
from headscope.models.modes import own_precision
from headscope.models.protocol import Token
from headscope.models.recording import OpenModel
from headscope.models.structure.points import At
from headscope.names import Head, HeadName, ModelShape

if TYPE_CHECKING:
    from headscope.heads.explain.circuit import Circuit
    from headscope.heads.explain.sources import Sources
    from headscope.heads.patching import Patching
    from headscope.heads.pruning import Pruned
    from headscope.heads.questions.label_rules import LabelRule
    from headscope.heads.questions.where import Where
    from headscope.heads.roles.report import Report
    from headscope.heads.roles.run import RoleOptions
    from headscope.models.any_torch.steps import StepOptions
    from headscope.scan.census import Census
    from headscope.scan.compare import Comparison
    from headscope.scan.options import ScanOptions

EMBEDDED = Path(__file__).parent / "models" / "embedded"

CONTROLS = 5  # sets of random heads next to an ablation


@dataclass(frozen=True, eq=False)
class _ActiveEdit:
    """An edit inside a ``with scope.edit(…)`` block, and the scope it belongs to."""

    scope: int
    bound: BoundEdit
    key: str


_active: ContextVar[tuple[_ActiveEdit, ...]] = ContextVar("headscope_edits", default=())


@dataclass(frozen=True)
class Generated:
    """A continuation: its tokens, its text, and the distribution at each step before and after the cuts."""

    text: str
    tokens: tuple[Token, ...]
    steps: Sequence[Cuts]

    def __str__(self) -> str:
        return self.text


@checked
class Scope:
    """An opened model: ``scope.look(text)`` reads a text, ``with scope.edit(…)`` edits heads, ``close`` restores it."""

    def __init__(self, model: OpenModel, opener: Callable[[], OpenModel] | None = None) -> None:
        self.model = model
        self._opener = opener
        self._batches: bool | None = None
        """Whether padded batches equal texts read one by one; unknown until the first batch."""
        self._compared = ComparedLengths()

    @property
    def shape(self) -> ModelShape:
        """The model's sites, heads, KV heads and widths."""
        return self.model.shape

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, as transformers made it; None without one."""
        return self.model.processor.tokenizer

    @property
    def hf_model(self) -> torch.nn.Module:
        """The PyTorch model itself."""
        return self.model.model

    @property
    def notes(self) -> Sequence[str]:
        """What to know about this model: parts that are not observed, what kind of sum its head parts make."""
        return self.model.notes

    @overload
    def look(self, text: list[str] | list[list[int]] | list[tuple[str, str]] | list[torch.Tensor]) -> list[Look]: ...
    @overload
    def look(self, text: Any) -> Look: ...
    @showing()
    def look(self, text: Any) -> Look | list[Look]:
        """Read one text (or token ids, messages, an image or audio), or a list of texts as one padded batch.

        Of ids ``[text, token]`` every row is a text.
        """
        if isinstance(text, torch.Tensor) and text.ndim == 2 and len(text) > 1 and not text.is_floating_point():
            text = text.tolist()
        if isinstance(text, list) and text and all(isinstance(item, torch.Tensor) for item in text):
            text = [item.flatten().tolist() for item in text]
        if isinstance(text, list) and text and all(isinstance(item, str | list | tuple) for item in text):
            return self._read_all([self._look(item) for item in text])
        return self._look(text).read()

    def observe(self, text: Any) -> Look:
        """Look at one text and observe all of its heads in the same pass."""
        return self._look(text).observe()

    def steps(self, run: Callable[..., Any], options: StepOptions | None = None) -> StepLooks:
        """Run a function that calls the module once per step (a diffusion pipeline), and look at each of its steps.

        ``run`` may take the module. Under the edits in force, in the run and in the looks.
        """
        from headscope.models.any_torch.model import AnyTorchModel
        from headscope.models.any_torch.steps import StepOptions, record_steps

        if not isinstance(self.model, AnyTorchModel):
            raise InputError(
                f"{self.shape.name} was opened with its tokenizer or processor; steps are of a module that was opened "
                "with load(module, inputs=…)"
            )
        opened, options, mine = self.model, options or StepOptions(), self._edits()
        bound, key = [edit.bound for edit in mine], "|".join(edit.key for edit in mine)
        edits = Edits(opened, bound)
        with edits.during():
            steps = record_steps(opened, run, edits.attend if edits else None, options.item)
        read = lambda at: Look(opened, steps[at].prepare(opened, options), bound, key).read()  # noqa: E731
        return StepLooks(opened, [step.name for step in steps], read)

    @contextmanager
    def edit(self, *edits: Edit | EditFunction) -> Iterator[Scope]:
        """Apply edits inside the block: to every look and generation of this scope, in this thread.

        A function of the site's name, its attention call and z, which returns z, is an edit as well.
        """
        wrong = [repr(edit)[:80] for edit in edits if not isinstance(edit, Edit) and not callable(edit)]
        if wrong:
            raise EditError(f"edit({wrong[0]}): give an edit such as ablate('5.1'), or a function of site, call and z")
        given = [edit if isinstance(edit, Edit) else of_function(edit) for edit in edits]
        bound = tuple(_ActiveEdit(id(self), edit.bind(self.model), edit.key) for edit in given)
        _active.set(_active.get() + bound)
        try:
            yield self
        finally:  # of blocks in generators, another one may have been entered or left since
            _active.set(tuple(each for each in _active.get() if each not in bound))

    @own_precision()
    @showing()
    def generate(self, text: Any, n_tokens: int = 40, sampling: Sampling | None = None, **settings: Any) -> Generated:
        """Continue a text under the edits in force; greedy unless ``sampling`` says otherwise.

        ``settings`` as in transformers: ``max_new_tokens``, and ``temperature``, ``top_k``, ``top_p`` and ``seed`` of
        ``Sampling``.
        """
        n_tokens = settings.pop("max_new_tokens", n_tokens)
        if sampling is not None and settings:
            raise InputError(f"generate(sampling=…, {', '.join(settings)}=…): give the settings in one of the two")
        inputs = generation_inputs(self.model, text, n_tokens)
        sampling = sampling or Sampling(**settings)
        edits = Edits(self.model, [edit.bound for edit in self._edits()])
        decoder = Decoder(self.model, inputs, edits.attend, edits.during)
        generator = torch.Generator().manual_seed(sampling.seed)
        logits, ids, steps = decoder.first(), [], Steps(sampling)
        for done in range(n_tokens):
            report_progress("generating", done, n_tokens)
            steps.append(logits)
            ids.append(draw(logits, sampling, generator))
            if ids[-1] in self.model.end_tokens or len(ids) == n_tokens:
                break
            logits = decoder.feed(ids[-1])
        chosen = torch.tensor(ids)
        return Generated(self.model.processor.decode(chosen), self.model.processor.tokens_of(chosen), steps)

    @showing()
    def importance(
        self, texts: Sequence[Any], how: Literal["exact", "gradient"] = "exact", target: Target | None = None
    ) -> Importances:
        """How much ablating each head changes the loss on these texts: exactly, or at first order from gradients.

        ``target`` makes one number of the model's output, whose change is measured in place of the loss: a class's
        logit, the norm of a vector. Under the edits in force.
        """
        return importance(self.model, texts, how, edits=[edit.bound for edit in self._edits()], target=target)

    @showing()
    def patching(
        self,
        clean: Any,
        corrupted: Any,
        metric: tuple[str | int, str | int] | Callable[[torch.Tensor], torch.Tensor],
        at: At = "z",
        by: Literal["head", "position"] = "head",
        how: Literal["exact", "attribution"] = "exact",
    ) -> Patching:
        """Activation patching: put each head's z, or each position's value, of the clean text into the corrupted one.

        ``metric``: a right and a wrong next token, or a function of logits ``[query, vocabulary]``. ``at``: ``"z"``, or
        a point of the stream such as ``"resid_pre"`` or ``"mlp_out"``, by position. ``how="attribution"`` estimates all
        effects from one gradient.
        """
        from headscope.heads.patching import patching

        self._refuse_edits("patching")
        return patching(self._look(clean).read(), self._look(corrupted).read(), metric, at, by, how)

    def prune(
        self,
        *,
        keep: float | None = None,
        heads: Sequence[HeadName] | None = None,
        texts: Sequence[Any] = (),
        even: bool = False,
        by: Literal["exact", "gradient"] = "exact",
    ) -> Pruned:
        """Remove ``heads`` from the weights, or all but the share ``keep`` that matters most on ``texts``.

        ``even`` takes as many from every layer, which most configs can say, so that transformers opens the result with
        no help. ``by`` is how heads are ranked (see ``importance``). This scope's own model stays as it is.
        """
        from headscope.heads.pruning import prune

        self._refuse_edits("prune")
        return prune(self.model, keep=keep, heads=heads, texts=texts, even=even, by=by)

    @own_precision()
    @showing()
    def heads(self, options: RoleOptions | None = None) -> Report:
        """Test every head for every role: score, null, interval and paper, and how many heads have none."""
        from headscope.heads.roles.run import run_battery

        self._refuse_edits("heads")
        return run_battery(self.model, options)

    @own_precision()
    @showing()
    def where(self, texts: Sequence[Any], classes: Sequence[LabelRule] = ()) -> Where:
        """Where each head's attention goes on these texts: shares of disjoint classes of keys, which add up to 1.

        Each text is read up to ``MOST_TOKENS`` tokens. ``classes`` of your own come before the built-in ones.
        """
        from headscope.heads.questions.where import MOST_TOKENS, where

        def looks() -> Iterator[Look]:
            for done, text in enumerate(texts):
                report_progress("reading the texts", done, len(texts))
                look = self._look(text)
                ids = look.prepared.inputs.get("input_ids")
                if ids is not None and ids.shape[1] > MOST_TOKENS:
                    look = self._look(ids[0, :MOST_TOKENS].tolist())
                with progress_callback(lambda *_: None):  # of this one text
                    look.read()
                yield look

        return where(looks(), classes)

    @own_precision()
    @showing()
    def scan(self, corpus: Any, *, out: str | Path | None = None, options: ScanOptions | None = None) -> Census:
        """Measure every head and question over a corpus: streaming and resumable.

        The documents of a model without a tokenizer are lists of ids.
        """
        from headscope.scan.options import ScanOptions
        from headscope.scan.run import scan

        self._refuse_edits("scan")
        if self.tokenizer is None and isinstance(corpus, list):
            rows = (each.tolist() if isinstance(each, torch.Tensor) else each for each in corpus)
            corpus = [" ".join(map(str, row)) if isinstance(row, list) else row for row in rows]
        return scan(self.model, corpus, out=out, options=options or ScanOptions(), opener=self._opener)

    def qk(self, head: HeadName) -> FactoredMatrix:
        """The QK circuit of a head, ``W_Q · W_Kᵀ``, before positions and norms."""
        return qk_ov_circuits.qk(self.model, head)

    def ov(self, head: HeadName) -> FactoredMatrix:
        """The OV circuit of a head, ``W_V · W_O``."""
        return qk_ov_circuits.ov(self.model, head)

    @own_precision()
    def composition(self, writer: HeadName, reader: HeadName, through: Through) -> float:
        """How strongly a later head reads what an earlier one writes, through ``"q"``, ``"k"`` or ``"v"`` (0 to 1)."""
        return qk_ov_circuits.composition(self.model, writer, reader, through)

    @own_precision()
    def compositions(self, through: Through) -> Compositions:
        """Composition scores of all pairs of heads."""
        return qk_ov_circuits.compositions(self.model, through)

    @own_precision()
    @showing()
    def circuit(
        self,
        clean: Sequence[Any] | str,
        corrupted: Sequence[Any] = (),
        answers: Sequence[tuple[str | int, str | int]] = (),
        wanted: float = 0.9,
    ) -> Circuit:
        """The smallest circuit found for a task: heads and MLPs, and edges into q, k, v, MLPs and the logits.

        A task is pairs of a clean and a corrupted text, all of one length, with (right, wrong) answers; or the name of
        one that is built in (``"induction"``); or a CSV file with the columns clean, corrupted, right and wrong.
        """
        from headscope.heads.explain.circuit_search import find_circuit
        from headscope.heads.explain.circuit_tasks import task_pairs

        self._refuse_edits("circuit")
        if isinstance(clean, str):
            pairs = task_pairs(self.model, clean)
            return find_circuit(self.model, pairs.clean, pairs.corrupted, pairs.answers, wanted, clean)
        return find_circuit(self.model, clean, corrupted, answers, wanted)

    @showing()
    def sources(
        self,
        documents: Sequence[str | range],
        question: str | Sequence[Mapping[str, Any]],
        answer: str | None = None,
        expected: str | None = None,
    ) -> Sources:
        """Which document an answer came from: what the answer loses when each is hidden from every head.

        ``question`` is put after the documents; or it is the whole prompt, a text or chat messages, in which the
        documents occur. ``answer`` is the first word that the model says itself unless given; ``expected`` is another
        answer to measure too, as in `` Paris``.
        """
        from headscope.heads.explain.sources import sources

        self._refuse_edits("sources")
        return sources(self.model, documents, question, answer, expected)

    def group(self, head: HeadName) -> list[Head]:
        """All heads that share this head's keys and values."""
        found = self.shape.find(head)
        return self.shape.sites[found.site].group(found.head)

    def close(self) -> None:
        """Restore the model to the state it was opened in."""
        self.model.close()

    def _look(self, text: Any) -> Look:
        """A look that has not been read yet, under the edits in force."""
        mine = self._edits()
        key = "|".join(edit.key for edit in mine)
        return Look(self.model, self.model.prepare(text), [edit.bound for edit in mine], key)

    def _read_all(self, looks: list[Look]) -> list[Look]:
        """Read looks in one padded batch; one by one where that is not equal, or was not for the first batch."""
        if self._batches is not False and not looks[0].edits.follows:  # which is one text at a time
            try:
                read_in_one_batch(looks, self._compared)
                self._batches = True
                return looks
            except NotOneBatchError:
                self._batches = self._batches or False
        return [Look(self.model, look.prepared, look.edits.bound, look.key).read() for look in looks]

    def _refuse_edits(self, what: str) -> None:
        """Reject a measurement of the unedited model while edits are in force: it would ignore them."""
        if self._edits():
            raise EditError(
                f"scope.{what} measures the unedited model, but edits are in force ({len(self._edits())}); call it "
                "outside `with scope.edit(…)`. Looks, generate and importance are read under edits"
            )

    def _edits(self) -> list[_ActiveEdit]:
        return [edit for edit in _active.get() if edit.scope == id(self)]

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        shape = self.shape
        return f"Scope({shape.name}: {shape.n_heads} heads in {len(shape.sites)} sites, d_model {shape.d_model})"


@checked
def compare(
    before: Scope | Census | str | Path, after: Scope | Census | str | Path, texts: Sequence[Any] = ()
) -> Comparison:
    """Compare two models head by head on the same texts, or two censuses or their folders: changes with intervals.

    Sites and heads of both have to be the same, as of two checkpoints, or of a model before and after fine-tuning.
    """
    from headscope.scan.compare import compare as compare_censuses

    scanned = []
    for each in (before, after):
        if isinstance(each, Scope) and not texts:
            raise InputError("compare(scope, scope, texts): two models are compared on texts; give at least one")
        scanned.append(each.scan(list(texts)) if isinstance(each, Scope) else each)
    return compare_censuses(*scanned)


@checked
def random_heads(scope: Scope, like: Sequence[HeadName], seed: int = 0) -> list[Head]:
    """Draw controls for some heads: as many others from each of their sites, such as for ``ablate(*controls)``."""
    wanted = [scope.shape.find(head) for head in like]
    generator, drawn = torch.Generator().manual_seed(seed), list[Head]()
    for site in dict.fromkeys(head.site for head in wanted):
        count = sum(head.site == site for head in wanted)
        others = [head for head in scope.shape.sites[site].heads() if head not in wanted]
        if len(others) < count:
            raise InputError(f"site {site} has {len(others)} other heads, and {count} were asked for; give fewer")
        drawn += [others[at] for at in torch.randperm(len(others), generator=generator)[:count].tolist()]
    return drawn


def ablation_beside_random(
    scope: Scope, look: Look, heads: Sequence[HeadName], token: int, ablated: Callable[..., Edit]
) -> dict[str, Any]:
    """Measure what a next token loses without these heads, and without as many random others of their layers."""
    chosen: list[Sequence[HeadName]] = [heads]
    with suppress(InputError):  # a layer may have too few other heads: then there is no control, and it says so
        chosen += [random_heads(scope, heads, seed) for seed in range(CONTROLS)]
    looks = []
    for off in chosen:
        with scope.edit(ablated(*off)):
            looks.append(scope.look([each.id for each in look.tokens]))
    return short_ablation(look, looks[0], looks[1:], token)


@checked
def open_look(path: str | Path, scope: Scope | None = None, *, name: str | None = None) -> Look:
    """Open a look that ``look.save`` wrote; with the scope of its model, everything works that works on a fresh one.

    With a ``name``, the path is a folder of captures (docs/how-to/served.md): open the served request of that name.
    """
    from headscope.heads.look.saved_look import open_saved_look
    from headscope.heads.look.served import open_capture

    model = None if scope is None else scope.model
    return open_saved_look(Path(path), model) if name is None else open_capture(Path(path), name, model)


@checked
def load(source: Any = None, tokenizer: Any = None, **options: Any) -> Scope:
    """Open a model.

    ``load()`` opens the embedded model; a string names a hub model, a folder, a GGUF file or a puzzle; a model object
    (with its tokenizer, if it reads text) is used as it is, and left as it was found when the scope closes.
    """
    from headscope.models.loading import open_model

    if isinstance(source, str) and source.startswith("puzzle-"):
        from headscope.lab.teach.puzzle import named

        made = named(source).compiled
        return load(made.model, made.tokenizer, **{"name": source, **options})
    source = EMBEDDED if source is None else source
    elsewhere = partial(open_model, source, tokenizer, **options) if isinstance(source, str | Path) else None
    return Scope(open_model(source, tokenizer, **options), elsewhere)
