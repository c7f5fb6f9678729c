"""Build a transformers model with some heads removed: resize its matrices before the weights are loaded.

``config.pruned_heads`` lists the sizes. A folder of pruned weights has a copy of this file, so that transformers opens
it without headscope too (``trust_remote_code=True``); it therefore imports nothing but torch.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

SCHEMA_VERSION = 1


class SharedHeads(nn.Linear):
    """Keys or values that repeat some of their heads: output head i is computed head ``heads[i]``.

    Attention needs equally many query heads per KV head; where pruning left uneven groups, repeating evens them out.
    """

    heads: list[int]
    d_head: int

    def forward(self, x: Tensor) -> Tensor:
        made = super().forward(x)
        return made.view(*made.shape[:-1], -1, self.d_head)[..., self.heads, :].flatten(-2)


def shrink(model: nn.Module, layout: Any) -> None:
    """Resize the matrices that lost heads. Their weights are undefined until they are loaded."""
    if layout.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"pruned_heads has schema_version {layout.get('schema_version')}; expected {SCHEMA_VERSION}")
    for path, (n_in, n_out) in layout["matrices"].items():
        _resize(model.get_submodule(path), path, int(n_in), int(n_out))
    for path, shared in layout["shared"].items():
        _share(model.get_submodule(path), path, [int(head) for head in shared["heads"]], int(shared["d_head"]))
    for path, sizes in layout["attributes"].items():
        module = model.get_submodule(path)
        for name, size in sizes.items():
            if type(vars(module).get(name)) is not int or type(size) is not int or size < 1:
                raise ValueError(f"pruned_heads sets {path}.{name} to {size!r}, which is not a size there")
            setattr(module, name, size)


def pruned(kind: Any) -> Any:
    """Return a subclass of a model family's class whose models are pruned as their config says."""

    def initialise(self: Any, config: Any, *rest: Any, **named: Any) -> None:
        kind.__init__(self, config, *rest, **named)
        shrink(self, config.pruned_heads)

    return type(kind.__name__, (kind,), {"__init__": initialise, "__module__": __name__})


def _resize(matrix: Any, path: str, n_in: int, n_out: int) -> None:
    conv1d = type(matrix).__name__ == "Conv1D"  # of GPT-2, whose weight is transposed
    if not isinstance(matrix, nn.Linear) and not conv1d:
        raise ValueError(f"pruned_heads names {path}, a {type(matrix).__name__}; only plain matrices lose heads")
    weight, bias = matrix.weight, matrix.bias
    had_in, had_out = weight.shape if conv1d else weight.shape[::-1]
    if not (0 < n_in <= had_in and 0 < n_out <= had_out):
        raise ValueError(f"pruned_heads makes {path} {n_in} × {n_out}, but it is {had_in} × {had_out}")
    matrix.weight = nn.Parameter(weight.new_empty((n_in, n_out) if conv1d else (n_out, n_in)))
    if bias is not None:
        matrix.bias = nn.Parameter(bias.new_empty(n_out))
    names = ("nx", "nf") if conv1d else ("in_features", "out_features")
    for name, size in zip(names, (n_in, n_out), strict=True):
        setattr(matrix, name, size)


def _share(matrix: Any, path: str, heads: list[int], d_head: int) -> None:
    if type(matrix) is not nn.Linear or d_head < 1 or matrix.out_features % d_head:
        raise ValueError(f"pruned_heads shares heads of {path}, which has none of size {d_head}")
    if not heads or not 0 <= min(heads) <= max(heads) < matrix.out_features // d_head:
        raise ValueError(f"pruned_heads shares heads {heads} of {path}, which has {matrix.out_features // d_head}")
    shared: Any = matrix
    shared.__class__ = SharedHeads
    shared.heads, shared.d_head = heads, d_head
