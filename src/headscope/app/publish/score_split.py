"""What a page needs to split a score over the writers of the residual stream: norms, W_Q and W_K, how q is rotated.

A browser splits scores of the plain form: a norm of the site's own, W_Q and W_K, rotary embeddings or none, and a
stream of one embedding, heads and MLPs. Other models say why not, and their sites hold the explained examples alone.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.app.publish.graph import Exported, stream_before_sites
from headscope.app.publish.weights import Stored
from headscope.app.wire import Arrays, numbers
from headscope.attention.observer import Call, plain
from headscope.errors import HeadscopeError, ModelError
from headscope.models.protocol import OpenModel
from headscope.models.structure.unembedding import frozen_norm

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
                raise ModelError(f"{name} is no matrix by itself in this model")
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
