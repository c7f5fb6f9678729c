"""Exact importance of every head beside plain forwards, one for each: ``python bench/ablation.py``.

A model of GPT-2 small's shape with random weights, 128 tokens, CPU. The plain way runs the model with its own sdpa
attention 144 times, each with one head's slice zeroed at the input of W_O, and takes the loss and the KL; ours shares
the layers below and sends all heads of a layer through the layers above in one batch. The numbers must be the same.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from measure import machine, write
from torch import Tensor

import headscope
from headscope.heads.look.importance import importance

RESULTS = Path(__file__).parent / "results"
TOKENS = 128


def model() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    made = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    for parameter in made.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.05)
    return made


@torch.no_grad()
def one_by_one(plain: transformers.PreTrainedModel, ids: Tensor) -> dict[str, tuple[float, float]]:
    """Every head in a pass of its own, with hooks a careful person would write."""
    width = plain.config.n_embd // plain.config.n_head
    whole = plain(ids, use_cache=False).logits[0].log_softmax(-1)
    base = F.nll_loss(whole[:-1], ids[0, 1:])
    found = {}
    for layer, block in enumerate(plain.transformer.h):
        for head in range(plain.config.n_head):
            piece = slice(head * width, (head + 1) * width)

            def silence(module: Any, args: tuple[Tensor], piece: slice = piece) -> tuple[Tensor]:
                z = args[0].clone()
                z[..., piece] = 0.0
                return (z,)

            hook = block.attn.c_proj.register_forward_pre_hook(silence)
            changed = plain(ids, use_cache=False).logits[0].log_softmax(-1)
            hook.remove()
            loss = F.nll_loss(changed[:-1], ids[0, 1:]) - base
            found[f"{layer}.{head}"] = (
                float(loss),
                float(F.kl_div(changed, whole, log_target=True, reduction="batchmean")),
            )
    return found


def timed(work: dict[str, Any], rounds: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Each in turn, as often as there are rounds: a run takes a minute and is its own warm-up."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    taken: dict[str, list[float]] = {name: [] for name in work}
    answers = {}
    for _ in range(rounds):
        for name, run in work.items():
            began = clock()
            answers[name] = run()
            taken[name].append(round(clock() - began, 2))
    return taken, answers


def speeds() -> dict[str, float]:
    """What the machine's products reach at the sizes of one copy and of twelve: the bound on any exact method."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    found = {}
    for rows, inner, columns in ((128, 768, 3072), (128, 768, 50257), (1536, 768, 3072), (1536, 768, 50257)):
        left, right = torch.randn(rows, inner), torch.randn(columns, inner)
        runs = []
        for _ in range(4):
            began = clock()
            F.linear(left, right)
            runs.append(clock() - began)
        found[f"{rows}x{inner}x{columns}"] = round(2e-9 * rows * inner * columns / min(runs), 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "ablation-cpu.json")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    ids = torch.randint(0, 50257, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    plain = model()
    plain.set_attn_implementation("sdpa")
    with headscope.load(model()) as scope:
        scope.look(ids[0].tolist())
        work = {
            "144 plain forwards": lambda: one_by_one(plain, ids),
            "exact importance": lambda: importance(scope.model, [ids[0].tolist()]),
            "gradient": lambda: importance(scope.model, [ids[0].tolist()], how="gradient"),
        }
        timings, answers = timed(work, given.rounds)
        theirs = answers["144 plain forwards"]
        ours = {str(entry.head): entry for entry in answers["exact importance"]}
        gaps = [
            max(abs(ours[name].loss.mean - loss), abs(ours[name].kl.mean - kl)) for name, (loss, kl) in theirs.items()
        ]
        largest = max(abs(loss) for loss, _ in theirs.values())
        print(f"largest difference {max(gaps):.1e} nats, largest effect {largest:.1e}")
    middle = {name: statistics.median(runs) for name, runs in timings.items()}
    base = middle["144 plain forwards"]
    rows = [
        {"what": name, "seconds": timings[name], "median_seconds": value, "times faster": base / value}
        for name, value in middle.items()
    ]
    for row in rows:
        print(f"{row['what']:20} {row['median_seconds']:7.2f} s  {row['times faster']:.2f}× faster")
    rows.append({"what": "products alone, GFLOP/s", **speeds()})
    print(rows[-1])
    rows.append({"what": "largest difference, nats", "value": max(gaps), "largest effect": largest})
    write(given.out, benchmark="ablation", about=machine(), rows=rows)


if __name__ == "__main__":
    main()
