"""Exact importance of every head beside plain forwards, one for each: ``python bench/ablation.py``.

A model of GPT-2 small's shape with random weights, 128 tokens, CPU. The plain way runs the model with its own sdpa
attention 144 times, each with one head's slice zeroed at the input of W_O, and takes the loss and the KL; ours shares
the layers below and sends all heads of a layer through the layers above in one batch. The numbers must be the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from measure import interleaved, machine, write
from torch import Tensor

import headscope
from headscope.heads.importance import importance

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "ablation-cpu.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    ids = torch.randint(0, 50257, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    plain = model()
    plain.set_attn_implementation("sdpa")
    with headscope.load(model()) as scope:
        theirs = one_by_one(plain, ids)
        ours = {str(entry.head): entry for entry in importance(scope.model, [ids[0].tolist()])}
        gaps = [
            max(abs(ours[name].loss.mean - loss), abs(ours[name].kl.mean - kl)) for name, (loss, kl) in theirs.items()
        ]
        largest = max(abs(loss) for loss, _ in theirs.values())
        print(f"largest difference {max(gaps):.1e} nats, largest effect {largest:.1e}")
        work = {
            "144 plain forwards": lambda: one_by_one(plain, ids),
            "exact importance": lambda: importance(scope.model, [ids[0].tolist()]),
            "gradient": lambda: importance(scope.model, [ids[0].tolist()], how="gradient"),
        }
        timings = interleaved(work, seconds=0.0, least=given.rounds)
    base = timings["144 plain forwards"].median_ms
    rows = [{"what": name, "time": timing, "times faster": base / timing.median_ms} for name, timing in timings.items()]
    for row in rows:
        print(f"{row['what']:20} {row['time']}  {row['times faster']:.2f}× faster")
    rows.append({"what": "largest difference, nats", "value": max(gaps), "largest effect": largest})
    write(given.out, benchmark="ablation", about=machine(), rows=rows)


if __name__ == "__main__":
    main()
