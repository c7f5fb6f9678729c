"""Export an opened model as an ONNX graph: token ids and edits of its heads in; logits, q, k and z of every site out.

The model runs as headscope runs it: its own modules, with an observer that computes z from q, k and v and applies the
edits. ``torch.export`` traces that pass once for every length of text.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headscope.attention.masks import Dense, Mask
from headscope.attention.observer import Call, plain
from headscope.errors import HeadscopeError, ModelError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.modes import hooked
from headscope.models.recording import OpenModel
from headscope.models.structure.readers import entries, has_own_norm, probed, writer_names

if TYPE_CHECKING:
    import onnx

SIDES = ("q", "k")


def _norms_before_sites(model: OpenModel) -> dict[str, nn.Module]:
    """The norm that each site reads the stream through; a ``ModelError`` says why its scores are not of this form."""
    found: dict[str, nn.Module] = {}
    expected = ["embedding"]
    inner: Any = model
    stream = probed(model)
    for site in model.shape.sites.values():
        for side in SIDES:
            if writer_names(stream, site.name, side) != expected or not has_own_norm(model, site.name, side):
                raise ModelError(f"site {site.name} reads more than one embedding, heads and MLPs through its own norm")
        paths = {getattr(entry, "path", "") for side in SIDES for entry in entries(stream.node(site.name, side))}
        if len(paths) != 1:
            raise ModelError(f"site {site.name}: its q and k are read through several norms")
        found[site.name] = inner.model.get_submodule(paths.pop())
        expected += [f"{site.name}.{head}" for head in range(site.n_heads)] + [f"mlp {site.name}"]
    return found


@contextmanager
def stream_before_sites(norms: dict[str, nn.Module]) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Keep what each of these norms reads and makes during a pass."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    sites = {id(norm): site for site, norm in norms.items()}

    def keep(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        seen[sites[id(module)]] = (args[0][0], output[0])

    with hooked(norms.values(), after=keep):
        yield seen


INPUTS = ("ids", "gates", "means", "offsets", "cuts")
LONGEST = 1_024  # tokens that a visitor's browser reads at once: some 300 MB of scores in a site of 32 heads
MOST_CUTS = 65  # the page's 64 arrows, and the empty one that is always there
LARGEST = 260_000_000  # parameters: half a gigabyte for each visitor
HIDDEN = -1e9  # added to the score of a knocked-out arrow; exp of it is 0
NO_CUT = (-1, 0, 0, 0)  # a row of ``cuts`` that belongs to no site
HOW_TO_INSTALL = "publishing a model needs onnx, onnxscript and onnxruntime: pip install onnx onnxruntime onnxscript"


class ExportError(ModelError):
    """A model that cannot be exported, and why. Its site is made of saved looks."""


@dataclass(frozen=True)
class _SiteScores:
    """How the scores of a site follow from its q and k, as far as a browser recomputes them."""

    scale: float
    softcap: float | None


@dataclass(frozen=True)
class Exported:
    """The graph with its weights inside, the longest text it reads, how each site scores, and its outputs.

    ``norms``: what each site reads the stream through, if the stream is among the outputs; else ``no_split`` says why.
    """

    graph: onnx.ModelProto
    longest: int
    scores: dict[str, _SiteScores]
    outputs: list[str]
    norms: dict[str, nn.Module]
    no_split: str = ""


class _EditedModel(nn.Module):
    """One forward pass of an opened model, with the edits of its heads as inputs.

    ``ids`` [1, query]; ``gates`` and ``means`` [site, head] and ``offsets`` [site, head, d_value]: a head delivers
    gate · z + mean · (the mean of z over the text) + offset; ``cuts`` [arrow, 4]: site, head, query and key of arrows
    that are knocked out.
    """

    def __init__(self, opened: HuggingFaceModel, norms: dict[str, nn.Module]) -> None:
        super().__init__()
        self.model = opened.model
        self._opened = [opened]  # in a list: the export would look for tensors in it
        self._norms = [norms]
        self.names = list(opened.shape.sites)

    def forward(self, ids: Tensor, gates: Tensor, means: Tensor, offsets: Tensor, cuts: Tensor) -> tuple[Tensor, ...]:
        opened = self._opened[0]
        kept: dict[str, tuple[Tensor, ...]] = {}

        def observe(site: str, call: Call) -> Tensor:
            index, n_heads = self.names.index(site), call.q.shape[1]
            z = _attend(call, _scores_of(site, call), cuts, index)
            gate, mean = (table[index, :n_heads][None, :, None, None] for table in (gates, means))
            z = gate * z + mean * z.mean(2, keepdim=True) + offsets[index, :n_heads, : z.shape[3]][None, :, None, :]
            kept[site] = (call.q[0], call.k[0], z[0], call.v[0].norm(dim=-1))
            return z

        with _stream_end(opened) as ends, stream_before_sites(self._norms[0]) as read, opened.observing(observe):
            logits = opened.model(input_ids=ids, **opened.arguments).logits
        streams = (part for name in self.names if name in read for part in read[name])
        return (logits[0], *ends(), *(part for name in self.names for part in kept[name]), *streams)


def _output_names(model: OpenModel, norms: Iterable[str] = ()) -> list[str]:
    """The outputs in order: logits, the residual stream before and after the final norm, and four for every site.

    Then, where scores are split in the browser, the stream before and after the norm of each site.
    """
    stream = ["residual", "normed"] if model.unembedding_input() is not None else []
    sites = [f"{part} {site}" for site in model.shape.sites for part in ("q", "k", "z", "norms")]
    return ["logits", *stream, *sites, *(f"{part} {site}" for site in norms for part in ("stream", "normed"))]


def export(model: OpenModel) -> Exported:
    """Return the model as one graph; raise an ``ExportError`` with the reason if that is impossible."""
    opened = _exportable(model)
    norms, no_split = _norms(opened)
    edited, names = _EditedModel(opened, norms).eval(), _output_names(model, norms)
    longest = min(LONGEST, model.shape.context or LONGEST)
    example = example_inputs(opened)
    scores = _site_scores(opened, example[0])
    length = torch.export.Dim("length", min=2, max=longest)
    arrows = torch.export.Dim("arrows", min=1, max=MOST_CUTS)
    shapes = {"ids": {1: length}, "gates": None, "means": None, "offsets": None, "cuts": {0: arrows}}
    try:
        with torch.no_grad(), _quiet():
            program = torch.export.export(edited, example, dynamic_shapes=shapes, strict=False)
            made = torch.onnx.export(program, dynamo=True, input_names=INPUTS, output_names=names, verbose=False)
    except HeadscopeError:
        raise
    except Exception as error:  # torch.export and its translation to ONNX fail with errors of many kinds
        raise ExportError(f"{model.shape.name} cannot be exported: {_first_line(error)}") from error
    assert made is not None
    return Exported(_without_origin(made.model_proto), longest, scores, names, norms, no_split)


def _norms(model: HuggingFaceModel) -> tuple[dict[str, nn.Module], str]:
    """The norms before the sites, or why scores of this model are not split in a browser."""
    try:
        return _norms_before_sites(model), ""
    except HeadscopeError as why:
        return {}, str(why)


def example_inputs(model: OpenModel, length: int = 16) -> tuple[Tensor, ...]:
    """Inputs that change nothing: gates of 1, no offsets, no arrow knocked out."""
    sites = model.shape.sites.values()
    widest, deepest = max(site.n_heads for site in sites), max(site.d_value for site in sites)
    gates = torch.ones(len(sites), widest)
    ids = torch.arange(length)[None] % (model.shape.vocabulary or 2)
    return ids, gates, torch.zeros_like(gates), torch.zeros(len(sites), widest, deepest), torch.tensor([NO_CUT, NO_CUT])


def _without_origin(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Take out what the exporter noted about the machine: stack traces with paths, names of modules."""
    for part in (graph, graph.graph):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    for each in (*graph.graph.node, *graph.graph.value_info, *graph.graph.initializer, *graph.graph.input):
        each.ClearField("doc_string")
        each.ClearField("metadata_props")
    graph.graph.ClearField("value_info")
    return graph


def _exportable(model: OpenModel) -> HuggingFaceModel:
    """Refuse by name what the graph or the browser cannot do."""
    if any(find_spec(package) is None for package in ("onnx", "onnxruntime", "onnxscript")):
        raise ExportError(HOW_TO_INSTALL)
    name, sites = model.shape.name, model.shape.sites.values()
    if not isinstance(model, HuggingFaceModel):
        raise ExportError(f"{name} is not a transformers model that calls the attention interface")
    if model.shape.vocabulary is None or "input_ids" not in model.takes or "decoder_input_ids" in model.takes:
        raise ExportError(f"{name} is not a model that reads one text and predicts its tokens")
    if any(site.kind != "self" for site in sites):
        raise ExportError(f"{name} has cross-attention, which a site without Python does not show")
    if not getattr(model.processor.tokenizer, "is_fast", False):
        raise ExportError(f"{name} has no tokenizer.json, which the browser reads its tokens with")
    count = sum(weight.numel() for weight in model.model.parameters())
    if count > LARGEST:
        raise ExportError(
            f"{name} has {count / 1e6:.0f} million parameters; a browser is sent at most {LARGEST / 1e6:.0f} million"
        )
    return model


def _site_scores(model: OpenModel, ids: Tensor) -> dict[str, _SiteScores]:
    found: dict[str, _SiteScores] = {}

    def observe(site: str, call: Call) -> Tensor:
        found[site] = _scores_of(site, call)
        return plain(call)

    with torch.no_grad():
        model.run({"input_ids": ids}, observe)
    return found


def _scores_of(site: str, call: Call) -> _SiteScores:
    """The scale and softcap of a call; raise an error if its scores have more than these."""
    scores = call.scores
    if scores.bias is not None or scores.sinks is not None:
        what = "a bias on its scores" if scores.sinks is None else "learned sinks"
        raise ExportError(f"site {site} has {what}, which a site without Python does not compute")
    return _SiteScores(call.q.shape[3] ** -0.5 if scores.scale is None else scores.scale, scores.softcap)


def _attend(call: Call, how: _SiteScores, cuts: Tensor, site: int) -> Tensor:
    """z from q, k and v, without the arrows of this site that are knocked out."""
    n_heads, length = call.q.shape[1:3]
    k, v = (part.repeat_interleave(n_heads // part.shape[1], 1) for part in (call.k, call.v))
    scores = (call.q * how.scale) @ k.mT
    if how.softcap is not None:
        scores = torch.tanh(scores / how.softcap) * how.softcap
    if not call.scores.mask.is_full:
        scores = scores.masked_fill(~_allowed(call.scores.mask, length), float("-inf"))
    here = cuts[:, 0] == site
    arrows = (torch.zeros_like(cuts[:, 0]), *(cuts[:, column] for column in (1, 2, 3)))
    weights = scores.index_put(arrows, torch.where(here, HIDDEN, 0.0), accumulate=True).softmax(-1)
    # A query that has lost its only key attends to nothing; softmax has given that key everything.
    lost = torch.where(here, -weights[arrows], 0.0)
    return weights.index_put(arrows, lost, accumulate=True) @ v


def _allowed(mask: Mask, length: int) -> Tensor:
    """True where a query may attend; while it is exported a mask is a tensor, and otherwise words."""
    places = torch.arange(length)
    parts = [part.allowed if isinstance(part, Dense) else part.block(places, places, 0) for part in mask.parts]
    together = parts[0]
    for part in parts[1:]:
        together = together & part
    return together


@contextmanager
def _stream_end(model: OpenModel) -> Iterator[Any]:
    """Keep the input and output of the final norm during a pass; without one, of the unembedding, its input twice."""
    first = model.unembedding_input()
    seen: list[Tensor] = []
    if first is None:
        yield lambda: ()
        return
    is_norm = model.unembedding().norm is not None

    def see(_: nn.Module, args: Any, output: Tensor) -> None:
        seen[:] = [args[0][0], output[0] if is_norm else args[0][0]]

    handle = first.register_forward_hook(see)
    try:
        yield lambda: tuple(seen)
    finally:
        handle.remove()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter: it prints its progress and warns of its own internals."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _first_line(error: Exception) -> str:
    """The first line of an exporter's message, which may be pages long, without any path in it."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"{type(error).__name__}: {line[:200]}" if "/" not in line[:200] else type(error).__name__
