"""The residual stream before each site as outputs of a published graph, where a browser can split scores over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.protocol import OpenModel
from headscope.models.structure.readers import entries, has_own_norm, probed, writer_names
from headscope.models.structure.trace import hooked

SIDES = ("q", "k")


def norms_before_sites(model: OpenModel) -> dict[str, nn.Module]:
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
