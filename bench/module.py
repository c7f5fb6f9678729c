"""Our module beside its peers, turn by turn in one process: time, spread and peak bytes, forward and backward.

``python bench/module.py [--device cuda] [--out FILE]``. All compute causal self-attention over the same input, with
the same weights where they can take them. Peers other than PyTorch's run where they can be imported: ``make bench``
puts them into ``.venv/peers``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import torch
from torch import Tensor, nn

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention

OURS = "headscope"
PYTORCH = ("torch.nn.MultiheadAttention", "torch.nn.MultiheadAttention, biased")
Run = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Size:
    d_model: int
    n_heads: int
    n_kv_heads: int
    lengths: tuple[int, ...]

    @property
    def name(self) -> str:
        grouped = "" if self.n_kv_heads == self.n_heads else f"/{self.n_kv_heads}"
        return f"{self.d_model}×{self.n_heads}{grouped}"


LENGTHS = (128, 512, 1024, 4096)
SIZES = (Size(128, 4, 4, LENGTHS), Size(768, 12, 12, LENGTHS), Size(4096, 32, 8, LENGTHS))


@dataclass(frozen=True)
class Contender:
    """A module that holds the same weights as ours, and how it is called."""

    module: nn.Module
    run: Run


def ours(size: Size) -> Contender:
    module = MultiHeadAttention(size.d_model, size.n_heads, size.n_kv_heads, out_bias=False)
    mask = causal()
    return Contender(module, lambda x: module(x, mask=mask))


def pytorch(size: Size, like: MultiHeadAttention, *, biased: bool) -> Contender:
    """Without a bias; with one it has a faster path in inference, and without gradients only."""
    module = nn.MultiheadAttention(size.d_model, size.n_heads, bias=biased, batch_first=True)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([linear.weight for linear in (like.q_proj, like.k_proj, like.v_proj)]))
        module.out_proj.weight.copy_(like.o_proj.weight)
    hidden = {length: torch.ones(length, length, dtype=torch.bool).triu(1) for length in size.lengths}

    def run(x: Tensor) -> Tensor:
        length = x.shape[1]
        if hidden[length].device != x.device:
            hidden[length] = hidden[length].to(x.device)
        output: Tensor = module(x, x, x, attn_mask=hidden[length], is_causal=True, need_weights=False)[0]
        return output

    return Contender(module, run)


def torchtune(size: Size, like: MultiHeadAttention) -> Contender:
    attention = importlib.import_module("torchtune.modules.attention").MultiHeadAttention
    module = attention(
        embed_dim=size.d_model,
        num_heads=size.n_heads,
        num_kv_heads=size.n_kv_heads,
        head_dim=like.d_head,
        **{name: nn.Linear(*getattr(like, name).weight.T.shape, bias=False) for name in ("q_proj", "k_proj", "v_proj")},
        output_proj=nn.Linear(size.d_model, size.d_model, bias=False),
    )
    for name, theirs in (("q_proj", "q_proj"), ("k_proj", "k_proj"), ("v_proj", "v_proj"), ("o_proj", "output_proj")):
        getattr(module, theirs).load_state_dict(getattr(like, name).state_dict())
    return Contender(module, lambda x: module(x, x))


def x_transformers(size: Size, like: MultiHeadAttention) -> Contender:
    attention = importlib.import_module("x_transformers.x_transformers").Attention
    grouped = {} if size.n_kv_heads == size.n_heads else {"kv_heads": size.n_kv_heads}
    module = attention(size.d_model, dim_head=like.d_head, heads=size.n_heads, causal=True, flash=True, **grouped)
    module.to_k.load_state_dict(like.k_proj.state_dict())
    module.to_v.load_state_dict(like.v_proj.state_dict())
    # Its heads 0, 1, 2 … take the KV heads in turn, where ours take the same one until the group is full.
    groups = (size.n_kv_heads, size.n_heads // size.n_kv_heads, like.d_head)
    with torch.no_grad():
        queries, outputs = like.q_proj.weight.view(*groups, -1), like.o_proj.weight.T.view(*groups, -1)
        module.to_q.weight.copy_(queries.transpose(0, 1).flatten(0, 2))
        module.to_out.weight.copy_(outputs.transpose(0, 1).flatten(0, 2).T)
    return Contender(module, lambda x: module(x))


def contenders(size: Size, device: str, dtype: torch.dtype) -> dict[str, Contender]:
    mine = ours(size)
    assert isinstance(mine.module, MultiHeadAttention)
    like = mine.module
    all_of_them = {OURS: mine}
    if size.n_kv_heads == size.n_heads:
        for name, biased in zip(PYTORCH, (False, True), strict=True):
            all_of_them[name] = pytorch(size, like, biased=biased)
    for name, build in (("torchtune", torchtune), ("x-transformers", x_transformers)):
        try:
            all_of_them[name] = build(size, like)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    for contender in all_of_them.values():
        contender.module.to(device, dtype)
    return all_of_them


def forward(contender: Contender, x: Tensor) -> Callable[[], object]:
    contender.module.eval()

    def work() -> Tensor:
        with torch.no_grad():
            return contender.run(x)

    return work


def backward(contender: Contender, x: Tensor) -> Callable[[], object]:
    """A training step without the optimiser: gradients of the weights and of x."""
    contender.module.train()
    x = x.detach().requires_grad_()
    leaves = [x, *(weight for weight in contender.module.parameters() if weight.requires_grad)]

    def work() -> tuple[Tensor, ...]:
        return torch.autograd.grad(contender.run(x).sum(), leaves, allow_unused=True)

    return work


MODES = {"forward": forward, "forward+backward": backward}


def measured(size: Size, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    dtype = torch.bfloat16 if given.device == "cuda" else torch.float32
    field = contenders(size, given.device, dtype)
    for length in size.lengths:
        torch.manual_seed(0)
        x = torch.randn(1, length, size.d_model).to(given.device, dtype)
        _check_equal(field, x)
        for mode, prepare in MODES.items():
            works = {}
            for name, contender in field.items():
                works[name] = prepare(contender, x)
            # One turn of 4096×32/8 over 4,096 tokens takes most of a minute on one core of a laptop.
            least = min(given.least, 3) if given.device == "cpu" and size.d_model * length >= 2**22 else given.least
            timings = measure.interleaved(works, device=given.device, seconds=given.seconds, least=least)
            for name, timing in timings.items():
                peak = measure.peak_bytes(works[name], given.device)
                yield {"size": size.name, "tokens": length, "dtype": str(dtype), "mode": mode,
                       "module": name, "time": timing, "peak_bytes": peak}  # fmt: skip


def _check_equal(field: dict[str, Contender], x: Tensor) -> None:
    """All of them compute the same thing, or the race is void."""
    expected = forward(field[OURS], x)()
    assert isinstance(expected, Tensor)
    tolerance = 1e-4 if x.dtype == torch.float32 else 3e-2
    for name, contender in field.items():
        difference = float((forward(contender, x)() - expected).abs().max())  # type: ignore[operator]
        if not difference <= tolerance * float(expected.abs().max()):
            raise SystemExit(f"{name} differs from ours by {difference:.2g}; they do not compute the same attention")


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each race: ours, the best of the others, and the ratio."""
    races = dict.fromkeys((row["size"], row["tokens"], row["mode"]) for row in rows)
    for race in races:
        times = {row["module"]: row for row in rows if (row["size"], row["tokens"], row["mode"]) == race}
        mine = times.pop(OURS)
        size, tokens, mode = race
        if not times:
            yield f"{size:>10} {tokens:>5} {mode:<17} ours {mine['time'].median_ms:9.3f} ms, and nobody to race with"
            continue
        best = min(times.values(), key=lambda row: row["time"].median_ms)
        ratio = mine["time"].median_ms / best["time"].median_ms
        memory = mine["peak_bytes"] / max(min(row["peak_bytes"] for row in times.values()), 1)
        yield (
            f"{size:>10} {tokens:>5} {mode:<17} ours {mine['time'].median_ms:9.3f} ms, best {best['module']} "
            f"{best['time'].median_ms:9.3f} ms: {ratio:.3f} of its time, {memory:.2f} of the least bytes"
        )


def _others(given: argparse.Namespace) -> list[dict[str, Any]]:
    """With ``--add``, what the file holds of races that are not run again."""
    if not given.add or given.out is None or not given.out.exists():
        return []
    again = {(size.name, length) for size in SIZES for length in size.lengths if _wanted(given, size.d_model, length)}
    rows: list[dict[str, Any]] = json.loads(given.out.read_text())["rows"]
    return [row for row in rows if (row["size"], row["tokens"]) not in again]


def _wanted(given: argparse.Namespace, width: int, length: int) -> bool:
    return width in (given.sizes or [width]) and length in (given.lengths or [length])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each race")
    parser.add_argument("--least", type=int, default=7, help="rounds of each race of less than a second a turn")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads (as many as torch likes)")
    parser.add_argument("--sizes", type=int, nargs="*", default=None, help="widths to run (all)")
    parser.add_argument("--lengths", type=int, nargs="*", default=None, help="lengths to run (all)")
    parser.add_argument("--add", action="store_true", help="keep what --out holds of other races (same machine!)")
    parser.add_argument("--peers", type=Path, default=Path(__file__).parent.parent / ".venv" / "peers")
    given = parser.parse_args()
    sys.path.append(str(given.peers))
    warnings.simplefilter("ignore")
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    about, rows = measure.machine(given.device), _others(given)
    for size in SIZES:
        lengths = tuple(length for length in size.lengths if _wanted(given, size.d_model, length))
        if lengths:
            new = list(measured(Size(size.d_model, size.n_heads, size.n_kv_heads, lengths), given))
            print("\n".join(summary(new)), flush=True)
            rows += new
            if given.out is not None:
                measure.write(given.out, benchmark="module", about=about, rows=rows)


if __name__ == "__main__":
    main()
