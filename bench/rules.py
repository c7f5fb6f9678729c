"""Rules of a model's heads: what they explain beside their nulls, what running on them costs, and time.

    python bench/rules.py --ship --out bench/results/rules-embedded.json
    python bench/rules.py --model SmolLM2-135M-Instruct.Q4_1.gguf --count 12 --cost-texts 1 --no-gpt2 --work FOLDER \\
        --out bench/results/rules-smollm2.json

The first is all that a new embedded model needs: --ship writes the rules that ship with it. With --work, rules and
losses are kept in a folder as they are found, and the same call goes on from there. Texts are passages of
headscope's lessons unless --texts names files. Times are processor time; the shape of GPT-2 small
(12 × 12 heads, random weights) is timed on 16 texts of 256 tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
import transformers

import headscope
from headscope.app.pages.rules.shipped import ship, texts_for
from headscope.cli.options import read_texts
from headscope.heads.rules.cost import CostOptions
from headscope.heads.rules.report import HeadRules, Rules, open_rules
from headscope.heads.rules.run import RuleOptions

CHARACTERS = 1000


class Kept(dict[str, float]):
    """Losses by name, written to a file with each new one."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else {})
        self.path = path

    def __setitem__(self, name: str, loss: float) -> None:
        super().__setitem__(name, loss)
        if self.path is not None:
            self.path.write_text(json.dumps(self, indent=1), encoding="utf-8")


def fitted(scope: headscope.scope.Scope, texts: list[Any], work: Path | None) -> tuple[Rules, dict[str, Any]]:
    """Rules and what they took; those of an earlier call where it left them."""
    if work is None or not (work / "rules.json").exists():
        rules, wall, processor = timed(scope, texts)
        taken = {"seconds": wall, "processor_seconds": processor, "threads": torch.get_num_threads()}
        if work is not None:
            work.mkdir(parents=True, exist_ok=True)
            rules.save(work / "rules.json")
            (work / "taken.json").write_text(json.dumps(taken), encoding="utf-8")
        return rules, taken
    return open_rules(work / "rules.json", scope.model), json.loads((work / "taken.json").read_text(encoding="utf-8"))


def timed(
    scope: headscope.scope.Scope, texts: list[Any], options: RuleOptions | None = None
) -> tuple[Rules, float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    rules = scope.rules(texts, options)
    return rules, round(time.perf_counter() - wall, 1), round(time.process_time() - processor, 1)


def described(rules: Rules) -> dict[str, Any]:
    """Means over heads, heads by first rule, and the heads that gain most and least."""
    ordered = sorted(rules, key=lambda head: -head.gain.value)
    resisting = sorted(rules, key=lambda head: head.in_context.rest.value)
    return {
        "means": rules.means(),
        "above_null": sum(head.above_null for head in rules),
        "named": {str(head.head): head.named for head in rules if head.named},
        "gain_most": {str(head.head): [head.gain.value, head.sentence] for head in ordered[:8]},
        "resist": {str(head.head): [head.in_context.rest.value, head.sentence] for head in resisting[:8]},
        "gain_below_0": {
            "rules": sum(head.gain.value < 0 for head in rules),
            "with_table": sum(head.with_table.gain.value < 0 for head in rules),
            "in_context": sum(head.in_context.gain.value < 0 for head in rules),
            "lowest": min(min(h.gain.value, h.with_table.gain.value, h.in_context.gain.value) for h in rules),
        },
        "by_site": by_site(rules),
    }


def by_site(rules: Rules) -> dict[str, dict[str, float]]:
    """Means over the heads of each site: gain of rules, with tables, in short context, and the shares of the rest."""
    sites: dict[str, list[HeadRules]] = {}
    for head in rules:
        sites.setdefault(head.head.site, []).append(head)
    return {
        site: {
            "gain": mean([head.gain.value for head in heads]),
            "gain_with_table": mean([head.with_table.gain.value for head in heads]),
            "gain_in_context": mean([head.in_context.gain.value for head in heads]),
            "rest": mean([head.rest.value for head in heads]),
            "rest_in_context": mean([head.in_context.rest.value for head in heads]),
        }
        for site, heads in sites.items()
    }


def mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4)


def gpt2_shape() -> dict[str, Any]:
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=5000)).eval()
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randint(5000, (256,), generator=generator).tolist() for _ in range(16)]
    with headscope.load(model) as scope:
        rules, wall, processor = timed(scope, texts)
    return {"heads": len(rules), "seconds": wall, "processor_seconds": processor, "means": rules.means()}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with headscope.load(arguments.model) as scope:
        given = read_texts(arguments.texts, arguments.count, CHARACTERS) if arguments.texts else []
        texts = given[: arguments.count] or texts_for(scope, arguments.count)
        rules, taken = fitted(scope, texts, arguments.work)
        result: dict[str, Any] = {
            "model": rules.model,
            "texts": len(texts),
            "heads": len(rules),
            **taken,
            **described(rules),
        }
        print(rules, taken, flush=True)
        if arguments.ship:
            ship(rules)
        if arguments.cost:
            kept = Kept(None if arguments.work is None else arguments.work / "losses.json")
            cost = rules.cost(texts[2::3][: arguments.cost_texts], CostOptions(importance="gradient"), kept)
            print(cost, flush=True)
            result["cost_texts"] = arguments.cost_texts
            result["cost"] = {name: value for name, value in cost.to_dict().items() if name != "replaced"}
    if arguments.gpt2:
        result["gpt2_shape"] = gpt2_shape()
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--texts", nargs="*")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--cost-texts", type=int, default=3)
    parser.add_argument("--work", type=Path, help="a folder to keep what is found, and to go on from")
    parser.add_argument("--ship", action="store_true", help="write the embedded model's rules beside it, too")
    parser.add_argument("--cost", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--gpt2", action=argparse.BooleanOptionalAction, default=True, help="GPT-2's shape too")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = run(given)
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
