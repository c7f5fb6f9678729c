"""One observed forward beside plain and storing ones: GPT-2 small's shape, random weights, on a CPU.

    python bench/observed.py                    # 256, 1,024 and 4,096 tokens; writes bench/results/observed-cpu.json
    python bench/observed.py --tokens 1024      # one length; the others are kept as they were measured

Contenders, all with one thread and all with every position's logits:
sdpa       the model as it is, with PyTorch's fused attention, seeing nothing
observed   the same forward with every head's entropy, distance, strongest key and five questions
look       ``scope.look``: the same again, and q, k, z kept for patterns on demand
eager      the model's eager attention; the same statistics from each layer's pattern, which is then let go
transformer-lens   its forward with all patterns in its cache (own environment), then the same statistics
A round runs each once, in turn; TransformerLens has a process of its own. The clock is processor time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import torch
import transformers
from torch import Tensor

RESULTS = Path(__file__).parent / "results" / "observed-cpu.json"
PEER = "transformer-lens"
GOAL = {1024: 1.15}
ROUNDS = {256: 9, 1024: 5, 4096: 1}
Work = Callable[[], object]


def gpt2(attention: str = "sdpa") -> Any:
    """GPT-2 small with room for 4,096 tokens; the same weights every time."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_positions=4096, architectures=["GPT2LMHeadModel"])
    made = transformers.GPT2LMHeadModel(config).eval()
    made.set_attn_implementation(attention)
    return made


def text(tokens: int) -> Tensor:
    """Random tokens, the second half a copy of the first, so that every question has rows to ask."""
    half = torch.randint(50257, (1, tokens // 2), generator=torch.Generator().manual_seed(1))
    return torch.cat((half, half), dim=1)


def from_pattern(pattern: Tensor, ids: Tensor) -> dict[str, Tensor]:
    """The same statistics from a stored pattern ``[batch, head, query, key]``, as a careful person reduces it."""
    place = torch.arange(pattern.shape[-1], device=pattern.device)
    apart = (place[:, None] - place[None]).to(pattern.dtype)
    same = ids[0][:, None] == ids[0][None]
    after = torch.zeros_like(same)
    after[:, 1:] = same[:, :-1]
    for matches in (same, after):
        matches.fill_diagonal_(False)
    mean = (pattern * apart).sum(-1)
    weight, key = pattern.max(-1)
    return {
        "entropy": -torch.special.xlogy(pattern, pattern).sum(-1), "distance": mean,
        "spread": (pattern * apart.square()).sum(-1) - mean.square(), "strongest": key, "weight": weight,
        "itself": pattern.diagonal(dim1=-2, dim2=-1), "previous": pattern.diagonal(offset=-1, dim1=-2, dim2=-1),
        "first": pattern[..., 0], "duplicate": (pattern * same).sum(-1), "induction": (pattern * after).sum(-1),
    }  # fmt: skip


@torch.no_grad()
def eager(model: Any, ids: Tensor) -> None:
    """Statistics layer by layer; a layer's pattern is gone before the next one is made."""

    def reduce(module: Any, args: Any, output: Any) -> Any:
        from_pattern(output[1], ids)
        return (output[0], None)

    hooks = [block.attn.register_forward_hook(reduce) for block in model.transformer.h]
    try:
        model(ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()


def ours(ids: Tensor) -> dict[str, Work]:
    """The contenders that run in this process."""
    import headscope
    from headscope.attention.engine import observe
    from headscope.heads.questions.standard_questions import standard_questions

    plain, stored, scope = gpt2(), gpt2("eager"), headscope.load(gpt2())
    questions, listed = standard_questions(ids), ids[0].tolist()

    def see(_: str, call: Any) -> Tensor:
        return observe(call.q, call.k, call.v, scores=call.scores, questions=questions).output

    return {
        "sdpa": torch.no_grad()(lambda: plain(ids, use_cache=False)),
        "observed": torch.no_grad()(lambda: scope.model.run({"input_ids": ids}, see)),
        "look": lambda: scope.look(listed),
        "eager": lambda: eager(stored, ids),
    }


def lens(ids: Tensor) -> dict[str, Work]:
    """TransformerLens, in its own environment."""
    import tempfile

    from transformer_lens.model_bridge import TransformerBridge

    with tempfile.TemporaryDirectory() as folder:
        gpt2().config.save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, hf_model=gpt2("eager"))

    @torch.no_grad()
    def cached() -> None:
        _, cache = bridge.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"))
        for pattern in cache.values():
            from_pattern(pattern, ids)

    return {PEER: cached}


def measured(contenders: dict[str, Work], rounds: int) -> dict[str, dict[str, Any]]:
    """Median processor time over the rounds after one that is not counted, and the peak of one more."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    peaks = {name: measure.peak_bytes(work) for name, work in contenders.items()}
    for _ in range(rounds):
        for name, work in contenders.items():
            began = time.process_time()
            work()
            taken[name].append((time.process_time() - began) * 1e3)
    return {
        name: {"median_ms": round(statistics.median(runs), 1), "least_ms": round(min(runs), 1), "runs": len(runs),
               "peak_bytes": peaks[name]}
        for name, runs in taken.items()
    }  # fmt: skip


def row(tokens: int, with_peer: bool) -> dict[str, Any]:
    import peer_env

    found = measured(ours(text(tokens)), ROUNDS.get(tokens, 3))
    base = found["sdpa"]["median_ms"]
    _say(tokens, found, base)
    if with_peer:
        said = peer_env.run(PEER, Path(__file__), "--peer", "--tokens", str(tokens), threads=1)
        _say(tokens, peers := json.loads(said.splitlines()[-1]), base)
        found |= peers
    return {"tokens": tokens, "goal_observed_times_sdpa": GOAL.get(tokens), "contenders": found}


def _say(tokens: int, found: dict[str, dict[str, Any]], base: float) -> None:
    for name, each in found.items():
        each["times_sdpa"] = round(each["median_ms"] / base, 3)
        print(f"{tokens:5} {name:17} {each['median_ms']:9.0f} ms  {each['times_sdpa']:.2f} x sdpa  "
              f"{each['peak_bytes'] / 2**20:8.0f} MiB", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--peer", action="store_true", help="run the peer alone and print its numbers")
    parser.add_argument("--no-peer", action="store_true", help="leave the peer out: at 4,096 it needs 13 GB")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.peer:
        tokens = chosen.tokens[0]
        print(json.dumps(measured(lens(text(tokens)), ROUNDS.get(tokens, 3))))
        return
    about = measure.machine()
    rows: list[dict[str, Any]] = json.loads(chosen.out.read_text())["rows"] if chosen.out.is_file() else []
    for tokens in chosen.tokens:
        rows = [old for old in rows if old["tokens"] != tokens] + [row(tokens, not chosen.no_peer)]
        measure.write(chosen.out, benchmark="observed forward", about=about, rows=rows)


if __name__ == "__main__":
    main()
