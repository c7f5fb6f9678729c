"""A blind trial: a scripted agent that may only call the tools names heads and their jobs in compiled models.

Twenty models: a job is compiled into some heads, beside decoys with random weights, in a rotated and noisy stream. The
agent is told neither the job nor the heads. A quarter of the models have shuffled weights: nothing may be named there.

    python bench/agents.py --out bench/results/agents.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import torch
from mcp import Client

import headscope
from headscope.app.mcp import Tools, server
from headscope.lab.compile import CompileOptions, Program, compile_program

JOBS = {"previous token": "previous token", "after a copy": "induction", "copies": "duplicate token",
        "itself": "itself", "first token": "first token"}  # fmt: skip
"""A compiled rule, and the role that names it."""
PROGRAMS = 15
SHUFFLED = 5


def hidden(number: int, seed: int) -> tuple[Any, dict[str, str]]:
    """A model whose heads are known, and the roles of those that have a job; none after its weights were shuffled."""
    rules = list(JOBS)
    program = Program(f"hidden {number}", (rules[number % len(rules)], rules[(number // len(rules) + 1) % len(rules)]))
    options = CompileOptions(seed=seed + number, decoys=3, decoy_sharpness=(0.5, 1.5, 4.0)[number % 3])
    made = compile_program(program, options)
    if number >= PROGRAMS:
        generator = torch.Generator().manual_seed(seed + number)
        with torch.no_grad():
            for weight in made.model.parameters():
                weight.copy_(weight.flatten()[torch.randperm(weight.numel(), generator=generator)].view_as(weight))
        return made, {}
    return made, {head: JOBS[rule] for head, rule in made.truth.items() if rule in JOBS}


async def named(client: Client) -> dict[str, str]:
    """Heads and roles that the agent names; of a head with several roles, the one with the highest score."""
    best: dict[str, tuple[float, str]] = {}
    for role in dict.fromkeys(JOBS.values()):
        found = (await client.call_tool("heads", {"role": role})).structured_content
        for each in (found.get("roles") or [{"heads": []}])[0]["heads"]:
            best[each["head"]] = max(best.get(each["head"], (0.0, "")), (each["score"], role))
    return {head: role for head, (_, role) in best.items()}


async def trial(seed: int) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    rows = []
    for number in range(PROGRAMS + SHUFFLED):
        made, truth = hidden(number, seed)
        with headscope.load(made.model, made.tokenizer) as scope:
            async with Client(server(Tools({"hidden": scope}))) as client:
                said = await named(client)
        right = sum(said.get(head) == role for head, role in truth.items())
        extra = [head for head in said if head not in truth]
        counts.update(jobs=len(truth), right=right, decoys_named=len(extra) if truth else 0)
        counts.update(shuffled_named=0 if truth else len(said))
        rows.append({"truth": truth, "said": said})
        print(f"{number + 1}: {right} of {len(truth)}, others named {len(extra)}", flush=True)
    return {"seed": seed, "models": PROGRAMS, "shuffled_models": SHUFFLED, **counts, "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    result = anyio.run(trial, arguments.seed)
    print(json.dumps({key: value for key, value in result.items() if key != "rows"}))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
