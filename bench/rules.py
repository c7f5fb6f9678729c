"""Rules of a model's heads: what they explain beside their nulls, what running on them costs, time and memory.

    python bench/rules.py --out bench/results/rules-embedded.json
    python bench/rules.py --model SmolLM2-135M-Instruct.Q4_1.gguf --no-cost --out bench/results/rules-smollm2.json

Texts are passages of headscope's lessons unless --texts names files. Times are processor time; the shape of GPT-2 small
(12 × 12 heads, random weights) is timed on 16 texts of 256 tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers

import headscope
from headscope.cli.options import read_texts
from headscope.heads.rules.cost import CostOptions
from headscope.heads.rules.report import Rules
from headscope.heads.rules.run import RuleOptions
from headscope.lab.teach.course.passages import lesson_passages

CHARACTERS = 1000


def timed(
    scope: headscope.scope.Scope, texts: list[Any], options: RuleOptions | None = None
) -> tuple[Rules, float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    rules = scope.rules(texts, options)
    return rules, round(time.perf_counter() - wall, 1), round(time.process_time() - processor, 1)


def described(rules: Rules) -> dict[str, Any]:
    """Means over heads, heads by first rule, and the heads that gain most and least."""
    ordered = sorted(rules, key=lambda head: -head.gain.value)
    resisting = sorted(rules, key=lambda head: head.with_table.rest.value)
    return {
        "means": rules.means(),
        "above_null": sum(head.above_null for head in rules),
        "named": {str(head.head): head.named for head in rules if head.named},
        "gain_most": {str(head.head): [head.gain.value, head.sentence] for head in ordered[:8]},
        "resist": {str(head.head): [head.with_table.rest.value, head.sentence] for head in resisting[:8]},
    }


def gpt2_shape() -> dict[str, Any]:
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=5000)).eval()
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randint(5000, (256,), generator=generator).tolist() for _ in range(16)]
    with headscope.load(model) as scope:
        rules, wall, processor = timed(scope, texts)
    return {"heads": len(rules), "seconds": wall, "processor_seconds": processor, "means": rules.means()}


def small_model() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=500, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=2**15,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def memory(length: int) -> None:
    """Print the peak memory of a fit on three texts of this length beyond that of a plain pass, in bytes."""
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randint(500, (length,), generator=generator).tolist() for _ in range(3)]
    with headscope.load(small_model()) as scope:
        scope.rules([text[:64] for text in texts])
        scope.model.run(scope.model.prepare(texts[0]).inputs)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        scope.rules(texts)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)


def memory_of(length: int) -> int:
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(length)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    texts = read_texts(arguments.texts, arguments.count, CHARACTERS) if arguments.texts else lesson_passages()
    texts = texts[: arguments.count]
    with headscope.load(arguments.model) as scope:
        rules, wall, processor = timed(scope, texts)
        result: dict[str, Any] = {
            "model": rules.model, "texts": len(texts), "heads": len(rules), "seconds": wall,
            "processor_seconds": processor, "threads": torch.get_num_threads(), **described(rules),
        }  # fmt: skip
        print(rules, wall, processor, flush=True)
        if arguments.cost:
            cost = rules.cost(texts[2::3][: arguments.cost_texts], CostOptions(importance="gradient"))
            print(cost, flush=True)
            result["cost"] = {name: value for name, value in cost.to_dict().items() if name != "replaced"}
    if arguments.gpt2:
        result["gpt2_shape"] = gpt2_shape()
        result["memory"] = {length: memory_of(length) for length in (2048, 8192)}
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--texts", nargs="*")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--cost-texts", type=int, default=3)
    parser.add_argument("--cost", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--gpt2", action=argparse.BooleanOptionalAction, default=True, help="GPT-2's shape and memory too"
    )
    parser.add_argument("--memory", type=int, help="print the peak memory of a fit on texts of this length")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.memory is not None:
        memory(given.memory)
        sys.exit()
    found = run(given)
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
