"""Measure what the second seam adds to a forward pass: a ViT-B shape with sdpa at 512 tokens, statistics apart.

``python bench/seam.py --out bench/results/seam.json``
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headscope
from headscope.attention.observer import plain
from headscope.models.any_torch.model import AnyTorchModel

WIDTH, HEADS, LAYERS, TOKENS = 768, 12, 12, 512


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def measure(rounds: int) -> dict[str, object]:
    """Processor time of a pass by itself and through the seam, in turns; the share is the median of the pairs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(Block() for _ in range(LAYERS))).eval()
    untouched, x = copy.deepcopy(model), torch.randn(1, TOKENS, WIDTH)
    with headscope.load(model, inputs=torch.randn(1, 16, WIDTH)) as scope, torch.no_grad():
        opened = scope.model
        assert isinstance(opened, AnyTorchModel)
        passes = {
            "alone": lambda: untouched(x),
            "through the seam": lambda: opened.run({opened.arguments.main: x}, lambda _, call: plain(call)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in passes}
        for turn in range(rounds + 1):
            for name, run in passes.items():
                start = time.process_time()
                run()
                if turn:  # the first of each warms up
                    seconds[name].append(time.process_time() - start)
    ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
    return {
        "shape": f"{LAYERS} layers of {HEADS} heads, width {WIDTH}, {TOKENS} tokens, sdpa, float32, one thread",
        "rounds": rounds,
        "seconds": {name: round(statistics.median(values), 4) for name, values in seconds.items()},
        "overhead": round(statistics.median(ratios) - 1, 4),
        "allowed": 0.03,
        "torch": torch.__version__,
        "machine": platform.processor() or platform.machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    found = measure(given.rounds)
    print(json.dumps(found, indent=2))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
