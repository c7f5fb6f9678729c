"""What a person waits for: ``scope.look`` beside the plain forward pass, at the lengths and on the device people have.

    python bench/look.py --device cpu --models gpt2 --tokens 128 1024      # writes bench/results/look-cpu.json
    python bench/look.py --models embedded --out bench/results/look-embedded-cpu.json
    python bench/look.py --device cuda --out bench/results/look-h200.json  # GPT-2 small and Llama 3.2 1B shapes

Random weights of the shape, the same for all contenders, which take turns in one process; token ids are given, and all
positions' logits are computed by everybody:
sdpa          the model as it is, with PyTorch's fused attention
eager         its eager attention, and the same statistics from each layer's pattern, which is then let go
look          ``scope.look``, then every statistic and mean answer of every head
observe       ``scope.observe``, which observes all heads in the pass, then every statistic
one pattern   ``scope.look(ids)`` and one head's pattern, of a long text its last 256 rows
predictions   ``scope.look(ids).predictions()``: nothing else is asked
ablated       the same with one head ablated
other path    ``look`` with its layers observed one by one in the pass where a short text has them observed together
              after it, and the reverse for a long one: which is faster says where the line should be
A batch is 32 texts of 64 tokens: ``scope.look(texts)`` and all answers, beside one batched forward pass.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import measure
import torch
import transformers
from observed import from_pattern
from torch import Tensor

import headscope
from headscope.attention.backends.fused import layers
from headscope.scope import EMBEDDED

LENGTHS = {"embedded": (20, 128, 512, 1024, 2048, 4096, 8192), "gpt2": (20, 128, 512, 1024, 2048, 4096),
           "llama-1b": (20, 128, 1024, 2048, 4096, 8192, 16384)}  # fmt: skip
LONGEST_EAGER = 4096
GOALS = {"look": 1.5, "predictions": 1.05, "ablated": 1.1}
ON_CPU = {"predictions": 1.1, "one pattern": 1.2, "observe": 1.3}
SHORT_ON_CPU = {"predictions": 1.2, "one pattern": 1.4, "observe": 1.6}
BATCH = (32, 64)


def config(name: str) -> Any:
    """The shape of a model people use; room for texts longer than GPT-2's own context."""
    if name == "gpt2":
        return transformers.GPT2Config(n_positions=8192, architectures=["GPT2LMHeadModel"])
    return transformers.LlamaConfig(
        hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
        intermediate_size=8192, vocab_size=128256, max_position_embeddings=131072,
    )  # fmt: skip


def model(name: str, attention: str, device: str) -> Any:
    """GPT-2 in float32, as it is published; Llama in bfloat16 on a GPU; the embedded model has its own weights."""
    if name == "embedded":
        opened = transformers.AutoModelForCausalLM.from_pretrained(
            EMBEDDED, attn_implementation=attention, dtype=torch.float32
        )
        return opened.to(device).eval()
    kind = transformers.GPT2LMHeadModel if name == "gpt2" else transformers.LlamaForCausalLM
    dtype = torch.bfloat16 if name != "gpt2" and device == "cuda" else torch.float32
    torch.manual_seed(0)
    with torch.device(device):
        return kind._from_config(config(name), attn_implementation=attention, dtype=dtype).eval()


def text(tokens: int) -> list[int]:
    """Random tokens, the second half a copy of the first, so that every question has rows to ask."""
    half = torch.randint(5000, (tokens // 2,), generator=torch.Generator().manual_seed(1)).tolist()
    return half + half


@torch.no_grad()
def eager(stored: Any, ids: Tensor) -> None:
    """Statistics layer by layer; a layer's pattern is gone before the next one is made."""

    def reduce(module: Any, args: Any, output: Any) -> Any:
        found = from_pattern(output[1], ids)
        for name in ("itself", "previous", "first", "duplicate", "induction"):
            found[name].mean(-1)
        return (output[0], None)

    layers = [module for path, module in stored.named_modules() if path.endswith((".attn", ".self_attn"))]
    hooks = [layer.register_forward_hook(reduce) for layer in layers]
    try:
        stored(ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()


def answers(look: Any) -> None:
    """Every statistic and mean answer of every head."""
    for site in look.sites:
        look.statistics(site)
        look.mean_answers(site)


def statistics(look: Any) -> None:
    for site in look.sites:
        look.statistics(site)


def one_pattern(look: Any) -> None:
    look.weights("3.2", rows=slice(-256 if len(look.tokens) > 4096 else 0, None))


def ablated(scope: Any, ids: list[int]) -> None:
    with scope.edit(headscope.ablate("3.2")):
        scope.look(ids).predictions(count=3)


def other_path(scope: Any, ids: list[int]) -> None:
    """A look with its layers observed as they are not by default at this length."""
    line = layers.LONGEST
    layers.LONGEST = 0 if len(ids) <= line else len(ids)
    try:
        answers(scope.look(ids))
    finally:
        layers.LONGEST = line


class Shape:
    """One shape of a model, opened in three ways with the same weights."""

    def __init__(self, name: str, device: str, only: list[str] | None = None) -> None:
        self.name, self.device, self.only = name, device, only
        self.plain, self.stored = model(name, "sdpa", device), model(name, "eager", device)
        self.scope = headscope.load(model(name, "sdpa", device))

    def contenders(self, tokens: int) -> dict[str, Callable[[], object]]:
        listed = text(tokens)
        ids = torch.tensor([listed], device=self.device)
        found: dict[str, Callable[[], object]] = {
            "sdpa": torch.no_grad()(lambda: self.plain(ids, use_cache=False)),
            "look": lambda: answers(self.scope.look(listed)),
            "predictions": lambda: self.scope.look(listed).predictions(count=3),
            "one pattern": lambda: one_pattern(self.scope.look(listed)),
            "observe": lambda: statistics(self.scope.observe(listed)),
            "ablated": lambda: ablated(self.scope, listed),
        }
        if self.device == "cuda":
            found["other path"] = lambda: other_path(self.scope, listed)
        if tokens <= LONGEST_EAGER:
            found["eager"] = lambda: eager(self.stored, ids)
        return {each: work for each, work in found.items() if self.only is None or each in ["sdpa", *self.only]}

    def batch_contenders(self) -> dict[str, Callable[[], object]]:
        count, tokens = BATCH
        texts = [[(token + 7 * number) % 5000 for token in text(tokens)] for number in range(count)]
        ids = torch.tensor(texts, device=self.device)
        return {
            "sdpa": torch.no_grad()(lambda: self.plain(ids, use_cache=False)),
            "look": lambda: [answers(look) for look in self.scope.look(texts)],
        }

    def first_look(self, tokens: int) -> float:
        """Seconds of the first look of this length: kernels are compiled, or fetched from an earlier process."""
        began = time.perf_counter()
        answers(self.scope.look(text(tokens)))
        if self.device == "cuda":
            torch.cuda.synchronize()
        return round(time.perf_counter() - began, 3)


def row(shape: Shape, what: dict[str, Any], work: dict[str, Callable[[], object]], seconds: float) -> dict[str, Any]:
    """Times of all contenders and their peaks above what the weights hold; a contender that fails is named."""
    work, failed = measure.working(work, shape.device)
    timing = measure.interleaved(work, device=shape.device, seconds=seconds, least=3) if seconds else {}
    measured = shape.device == "cuda" or what["tokens"] >= LONGEST_EAGER
    peak = {name: measure.peak_bytes(run, shape.device) for name, run in work.items() if measured}
    goals = GOALS if shape.device == "cuda" else SHORT_ON_CPU if what["tokens"] < 128 else ON_CPU
    weights = sum(w.numel() * w.element_size() for w in shape.plain.parameters())
    found = {"model": shape.name, **what, "times": timing, "times_sdpa": {}, "goals": goals, "peak_bytes": peak,
             "peak_times_sdpa_with_weights": {}, "weight_bytes": weights, "failed": failed}  # fmt: skip
    sites = shape.scope.shape.sites.values()
    found["qkz_bytes"] = 4 * what["tokens"] * sum(2 * s.n_heads * s.d_head + s.n_kv_heads * s.d_head for s in sites)
    if "sdpa" in work:
        base, held = timing["sdpa"].median_ms if timing else 1.0, peak.get("sdpa", 0) + weights
        found["times_sdpa"] = {name: round(each.median_ms / base, 3) for name, each in timing.items()}
        found["peak_times_sdpa_with_weights"] = {n: round((size + weights) / held, 3) for n, size in peak.items()}
    said = {name: f"{timing[name].median_ms:.2f} ms ({ratio:.2f} x)" for name, ratio in found["times_sdpa"].items()}
    print(shape.name, what, said, {name: f"{size >> 20} MiB" for name, size in peak.items()}, flush=True)
    return found


def rows(
    name: str, lengths: list[int], device: str, seconds: float, only: list[str] | None
) -> Iterator[dict[str, Any]]:
    shape = Shape(name, device, only)
    for tokens in lengths:
        try:
            what = {"tokens": tokens, "first_look_s": shape.first_look(tokens) if seconds else None}
            yield row(shape, what, shape.contenders(tokens), seconds)
        except Exception as error:  # the other lengths are measured all the same
            yield {"model": name, "tokens": tokens, "failed": {"row": f"{type(error).__name__}: {error}"[:400]}}
    if only is None:
        what = {"texts": BATCH[0], "tokens": BATCH[1]}
        yield row(shape, what, shape.batch_contenders(), seconds)
    shape.scope.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--models", nargs="+", choices=list(LENGTHS), default=list(LENGTHS))
    parser.add_argument("--tokens", type=int, nargs="+", help="instead of the usual lengths")
    parser.add_argument("--only", nargs="+", help="contenders beside sdpa")
    parser.add_argument("--seconds", type=float, default=4.0, help="for one length of one model; 0: memory only")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "look-cpu.json")
    chosen = parser.parse_args()
    if chosen.device == "cpu":
        torch.set_num_threads(1)
    about, found = measure.machine(chosen.device), []
    for name in chosen.models:
        try:
            for made in rows(name, chosen.tokens or list(LENGTHS[name]), chosen.device, chosen.seconds, chosen.only):
                found.append(made)
                measure.write(chosen.out, benchmark="look", about=about, rows=found)
        except Exception as error:  # the other model is measured all the same
            found.append({"model": name, "failed": {"model": f"{type(error).__name__}: {error}"[:400]}})
            measure.write(chosen.out, benchmark="look", about=about, rows=found)
        gc.collect()
        if chosen.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
