"""Move a graph's weights into one file of float16 or float32 numbers, and note where in it the page finds W_O and W_U.

The browser's runtime reads the file as the graph's external data, and the page itself reads single rows of it, so that
no weight is sent twice. Each weight is widened to float32 when a session begins: only its storage is smaller.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from headscope.app.publish.graph import Exported, stream_before_sites
from headscope.app.wire import Arrays, numbers
from headscope.attention.observer import Call, plain
from headscope.errors import HeadscopeError, ModelError
from headscope.models.recording import OpenModel
from headscope.models.structure.recorded_pass import stream_factor
from headscope.models.structure.unembedding import frozen_norm

if TYPE_CHECKING:
    import onnx

DType = Literal["float16", "float32"]
FILE = "weights.bin"
SMALLEST = 256  # numbers: smaller tables stay in the graph
ALIGNED = 64  # bytes: where each table may begin
AFTER_NORM = "a norm stands after W_O here, which this site cannot hold at its value"


@dataclass(frozen=True)
class Stored:
    """A graph without its weights, the weights, and where each of them begins."""

    graph: onnx.ModelProto
    weights: bytes
    tables: dict[str, _StoredMatrix]
    dtype: DType


@dataclass(frozen=True)
class _StoredMatrix:
    """A matrix in the file: its first byte, its shape, and whether it lies there transposed."""

    offset: int
    shape: tuple[int, ...]
    dtype: DType
    transposed: bool = False


class _File:
    """Bytes of tables, one after another."""

    def __init__(self, dtype: DType) -> None:
        self.dtype, self.parts, self.size = dtype, list[bytes](), 0

    def add(self, table: NDArray[np.float32]) -> _StoredMatrix:
        """Store a table, rounded to the file's precision."""
        written = table.astype(self.dtype).tobytes()
        begins, padding = self.size, -len(written) % ALIGNED
        self.parts += [written, bytes(padding)]
        self.size += len(written) + padding
        return _StoredMatrix(begins, table.shape, self.dtype)


def store(graph: onnx.ModelProto, model: OpenModel, dtype: DType = "float16") -> Stored:
    """Move every weight of the graph into the file, in this precision."""
    from onnx import numpy_helper

    file, moved = _File(dtype), dict[str, _StoredMatrix]()
    arrays: dict[str, NDArray[np.float32]] = {}
    for weight in graph.graph.initializer:
        if weight.data_type == 1 and np.prod(weight.dims) >= SMALLEST:  # 1: float32
            arrays[weight.name] = numpy_helper.to_array(weight)
            moved[weight.name] = file.add(arrays[weight.name])
    _point_outside(graph, moved)
    tables = {name: _found(wanted, arrays, moved) or file.add(wanted) for name, wanted in _wanted(model).items()}
    for name, wanted in _read_by_heads(model).items():
        found = _found(wanted, arrays, moved)
        tables |= {} if found is None else {name: found}  # a part of a larger matrix is not sent twice
    return Stored(graph, b"".join(file.parts), tables, dtype)


def _wanted(model: OpenModel) -> dict[str, NDArray[np.float32]]:
    """The matrices that the page reads: W_O of every site, all its heads below each other, and W_U."""
    found = {}
    for site in model.shape.sites:
        try:
            found[f"W_O {site}"] = numbers(model.output_weight(site).weight.flatten(0, 1))
        except HeadscopeError:  # attribution says why
            continue
    with suppress(HeadscopeError):
        found["W_U"] = numbers(model.unembedding().weight)
    return found


def _read_by_heads(model: OpenModel) -> dict[str, NDArray[np.float32]]:
    """W_Q and W_K of every site, all its heads below each other."""
    found = {}
    with suppress(HeadscopeError):
        for site in model.shape.sites:
            for name, weight in (("W_Q", model.query_weight(site)), ("W_K", model.key_weight(site))):
                found[f"{name} {site}"] = numbers(weight.mT.flatten(0, 1))
    return found


def _found(
    wanted: NDArray[np.float32], arrays: dict[str, NDArray[np.float32]], moved: dict[str, _StoredMatrix]
) -> _StoredMatrix | None:
    """The same numbers among the graph's own weights, which its exporter renames and transposes."""
    for name, array in arrays.items():
        for turned in (False, True):
            shown = array.T if turned and array.ndim == 2 else array
            if shown.shape == wanted.shape and np.array_equal(shown, wanted):
                return replace(moved[name], transposed=turned)
    return None


def _point_outside(graph: onnx.ModelProto, moved: dict[str, _StoredMatrix]) -> None:
    """Replace these weights by references into the file, each with the steps that widen it to float32.

    The runtime takes these steps once, when a session begins: all that they read is constant.
    """
    kept = [weight for weight in graph.graph.initializer if weight.name not in moved]
    nodes = []
    for name, table in moved.items():
        weights, steps = _widened(name, table)
        kept += weights
        nodes += steps
    nodes += graph.graph.node
    for old, new in ((graph.graph.initializer, kept), (graph.graph.node, nodes)):
        del old[:]
        old.extend(new)


def _widened(name: str, table: _StoredMatrix) -> tuple[list[onnx.TensorProto], list[onnx.NodeProto]]:
    """A weight as it is stored, and the steps that make float32 of it."""
    from onnx import TensorProto, helper

    if table.dtype == "float32":
        return [_outside(name, TensorProto.FLOAT, table.shape, table.offset)], []
    stored = _outside(f"{name}/stored", TensorProto.FLOAT16, table.shape, table.offset)
    return [stored], [helper.make_node("Cast", [stored.name], [name], to=TensorProto.FLOAT)]


def _outside(name: str, kind: int, shape: tuple[int, ...], offset: int) -> onnx.TensorProto:
    """A tensor whose numbers are in the file."""
    from onnx import TensorProto, helper

    made = TensorProto(name=name, data_type=kind, dims=shape)
    made.data_location = TensorProto.EXTERNAL
    size = int(np.prod(shape)) * helper.tensor_dtype_to_np_dtype(kind).itemsize
    for key, value in (("location", FILE), ("offset", offset), ("length", size)):
        made.external_data.add(key=key, value=str(value))
    return made


def attribution(model: OpenModel) -> tuple[dict[str, Any], Arrays]:
    """Return what the page needs in addition to W_O and W_U to split a logit; ``why_not`` if it cannot."""
    values: dict[str, Any] = {"kinds": {}, "why_not": "", "note": "", "centred": False, "scales": {}}
    arrays: Arrays = {}
    try:
        for site in model.shape.sites:
            weight = model.output_weight(site)
            values["kinds"][site] = weight.kind
            if weight.bias is not None:
                arrays[f"bias {site}"] = numbers(weight.bias)
            if weight.post_norm is not None:
                values["why_not"] = f"site {site}: {AFTER_NORM}"
        unembedding = model.unembedding()
        values["note"] = unembedding.note
        if not values["why_not"]:
            values["scales"] = {site: stream_factor(model, site) for site in model.shape.sites}
        signs = torch.ones(model.shape.d_model)
        signs[1::2] = -1
        gain, values["centred"] = frozen_norm(unembedding.norm, signs)
        arrays["gain"] = numbers(gain)
        arrays["at_zero"] = numbers(_at_zero(unembedding.norm, model.shape.d_model))
    except HeadscopeError as why:
        values["why_not"] = str(why)
    return values, arrays


def _at_zero(norm: torch.nn.Module | None, width: int) -> torch.Tensor:
    """What the final norm makes of nothing: its bias."""
    if norm is None:
        return torch.zeros(width)
    like = next(norm.parameters(), torch.zeros(()))
    with torch.no_grad():
        made: torch.Tensor = norm(torch.zeros(1, 1, width).to(like))
    return made[0, 0]


Rotary = Literal["none", "half"]
TOLERANCE = 1e-4  # of the largest number of q or k
PROBE = 16  # tokens


def split_card(model: OpenModel, exported: Exported, stored: Stored) -> tuple[dict[str, Any], Arrays]:
    """How the page splits scores, checked against q and k of a few tokens; or why it does not."""
    values, arrays = {"why_not": exported.no_split, "rotary": "none", "centred": False}, Arrays()
    if exported.no_split:
        return values, arrays
    try:
        for name in (f"{matrix} {site}" for site in exported.norms for matrix in ("W_Q", "W_K", "W_O")):
            if name not in stored.tables:
                raise ModelError(f"{name} is not a separate matrix in this model")
        forms = {_describe(arrays, model, site, norm) for site, norm in exported.norms.items()}
        if len(forms) != 1:
            raise ModelError("its sites read the stream in several ways")
    except HeadscopeError as why:
        return values | {"why_not": str(why)}, Arrays()
    rotary, centred = forms.pop()
    return values | {"rotary": rotary, "centred": centred}, arrays


def _describe(arrays: Arrays, model: OpenModel, site: str, norm: nn.Module) -> tuple[Rotary, bool]:
    signs = torch.ones(model.shape.d_model)
    signs[1::2] = -1
    gain, centred = frozen_norm(norm, signs)
    arrays[f"gain {site}"] = numbers(gain)
    states = _probe(model, site, norm)
    rotary: set[Rotary] = set()
    for side, weight in (("q", model.query_weight(site)), ("k", model.key_weight(site))):
        made = torch.einsum("td,hdm->htm", states["normed"].double(), weight.detach().double())
        rotary.add(_rotary(made, states[side].double(), site, side))
    if len(rotary) != 1:
        raise ModelError(f"site {site}: its q and k are rotated differently")
    return rotary.pop(), centred


def _probe(model: OpenModel, site: str, norm: nn.Module) -> dict[str, Tensor]:
    """The normed stream, q and k of one site on a few tokens."""
    kept: dict[str, Tensor] = {}

    def observe(name: str, call: Call) -> Tensor:
        if name == site:
            kept.update(q=call.q[0], k=call.k[0])
        return plain(call)

    ids = torch.arange(PROBE)[None] % (model.shape.vocabulary or 2)
    with torch.no_grad(), stream_before_sites({site: norm}) as seen:
        model.run({"input_ids": ids}, observe)
    return kept | {"normed": seen[site][1]}


def _rotary(
    made: Float[Tensor, "head query d_head"], own: Float[Tensor, "head query d_head"], site: str, side: str
) -> Rotary:
    """Which rotation turns what a projection makes into a model's own q or k."""
    turned = {"none": made, "half": made if made.shape[2] % 2 else _rotated_halves(made, own)}
    limit = TOLERANCE * float(own.abs().max())
    for name in ("none", "half"):
        if float((turned[name] - own).abs().max()) <= limit:
            return name
    raise ModelError(f"site {site}: more than a rotation lies between its projection and its {side}")


def _rotated_halves(
    made: Float[Tensor, "head query d_head"], own: Float[Tensor, "head query d_head"]
) -> Float[Tensor, "head query d_head"]:
    """Rotate pairs of numbers half a head apart, by the angles at each position that come nearest to ``own``."""
    (x, y), (u, v) = made.chunk(2, -1), own.chunk(2, -1)
    size = (x * x + y * y).sum(0).clamp(min=1e-30)
    cosine, sine = (x * u + y * v).sum(0) / size, (x * v - y * u).sum(0) / size
    return torch.cat((x * cosine - y * sine, y * cosine + x * sine), -1)
