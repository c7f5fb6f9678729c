"""Evaluate a trained model: ``python -m bench.judge_model FOLDER --novels novels.jsonl.xz --out report.json``.

Prints and writes JSON: the roles that the battery gives its heads, answers to questions whose names and templates were
not trained on, loss on held-out novels, repeat-probe scores, what ablating each role's heads does to every task,
redraws of random and of shuffled weights, sizes, times, samples, and which of the goals are reached.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from bench.curriculum import held_out
from bench.judged_tasks import Task, ablation_table, answers, copy_losses, tasks_of
from bench.train_model import log

from headscope.heads.questions.head_scores import head_scores
from headscope.heads.questions.standard_questions import STANDARD
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.heads.roles.report import Report
from headscope.heads.roles.run import RoleOptions, run_battery, shuffled_weights
from headscope.lab.train.gpt import GPT
from headscope.lab.train.llama_folder import load_folder
from headscope.lab.train.text_files import encode, load_tokenizer, read_documents
from headscope.models.weight_hash import weight_hash
from headscope.scope import EMBEDDED, Scope, load

SEEDS = range(5)
PROMPTS = ("It was a cold evening when", "The old man looked at her and said", "She opened the letter, and")
MUST_HAVE = ("previous token", "first token", "copying", "induction", "name mover", "coreference", "successor")
OTHERS = (
    "duplicate token",
    "S-inhibition",
    "verb to subject",
    "retrieval",
    "noun to modifier",
    "negation",
    "separators",
)
LOOK = "import headscope; scope = headscope.load({folder!r}); scope.look('The horse crossed the road.').patterns('0')"
NEEDLE_WORDS = 1_550  # some 2,000 tokens of the battery's plain sentences
GOALS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "at least 9 roles that a causal model can earn": lambda found: found["n_roles"] >= 9,
    "all of " + ", ".join(MUST_HAVE): lambda found: not found["missing"],
    "indirect object: the right name in 95 % of 500": lambda found: found["indirect object"]["right"] >= 0.95,
    "pronouns: 90 %": lambda found: found["pronoun"]["right"] >= 0.90,
    "needle at 2,000 tokens: 90 %": lambda found: found["needle"]["right"] >= 0.90,
    "novels held out: at most 3.45 nats per token": lambda found: found["novels"]["nats_per_token"] <= 3.45,
    "weights, tokenizer and film: at most 30 MB": lambda found: found["bytes"]["all"] <= 30_000_000,
    "random weights: at most 2 % of redraws earn a name": lambda found: _rare(found["redraws"]["random"]),
    "shuffled weights: at most 2 % of redraws earn a name": lambda found: _rare(found["redraws"]["shuffled"]),
    "load and first look no slower than the embedded model's": lambda found: (
        found["seconds"]["this"] <= 1.1 * found["seconds"]["embedded"]
    ),
}


def _rare(redraws: dict[str, int]) -> bool:
    return redraws["named"] <= 0.02 * redraws["of"]


def roles(report: Report) -> dict[str, Any]:
    """The roles earned among those that count, each with its heads, strongest first, and those that are missing."""
    earned: dict[str, dict[str, float]] = {}
    for finding in sorted(report.findings, key=lambda finding: -finding.score):
        if finding.role in MUST_HAVE + OTHERS:
            earned.setdefault(finding.role, {})[finding.head] = round(finding.score, 3)
    missing = [role for role in MUST_HAVE if role not in earned]
    return {"roles": earned, "n_roles": len(earned), "missing": missing, "heads without": report.n_without}


def probe_scores(model: GPT) -> dict[str, Any]:
    """Best head of each standard question on repeated random tokens, averaged over seeds, and the losses on copies."""
    probes = [RepeatProbe(vocabulary=model.config.vocabulary, seed=seed) for seed in SEEDS]
    seen = [head_scores(model, probe.tokens())[0] for probe in probes]
    best = {}
    for name in STANDARD:
        score, head = torch.stack([each.mean(name) for each in seen]).mean(0).max(dim=0)
        best[name] = [seen[0].heads[int(head)], round(float(score), 3)]
    first, second = copy_losses(model)
    return {"best": best, "first_copy": round(first, 3), "second_copy": round(second, 3)}


@torch.no_grad()
def novels_loss(model: GPT, folder: Path, novels: Path, window: int, most: int) -> dict[str, Any]:
    """Nats per token and per byte on the held-out novels, over windows that begin with the start token."""
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    nats = n_tokens = n_bytes = 0.0
    each = {}
    for document in read_documents(novels):
        if not document.held_out:
            continue
        tokens = encode(tokenizer, [document])[1:].long()
        rows = tokens[: len(tokens) // window * window].view(-1, window)[:: max(1, 4 * len(tokens) // most)]
        loss = sum(float(model.loss(torch.nn.functional.pad(row[None], (1, 0))).sum()) for row in rows)
        each[document.title] = round(loss / rows.numel(), 3)
        nats, n_tokens = nats + loss, n_tokens + rows.numel()
        n_bytes += sum(len(tokenizer.decode(row.tolist()).encode()) for row in rows)
    means = {"nats_per_token": round(nats / n_tokens, 3), "nats_per_byte": round(nats / n_bytes, 3)}
    return means | {"tokens": n_tokens, "window": window, "each": each}


def redraws(scope: Scope, n: int) -> dict[str, dict[str, int]]:
    """How many of ``n`` random and ``n`` shuffled redraws of the weights have a head that earns any name."""
    named = {"random": 0, "shuffled": 0}
    own = {name: weight.detach().clone() for name, weight in scope.model.model.named_parameters()}
    for seed in range(n):
        with shuffled_weights(scope.model, seed):
            named["shuffled"] += bool(run_battery(scope.model, RoleOptions(seed=seed)).findings)
        _randomise(scope, seed)
        named["random"] += bool(run_battery(scope.model, RoleOptions(seed=seed)).findings)
        with torch.no_grad():
            for name, weight in scope.model.model.named_parameters():
                weight.copy_(own[name])
        log(f"redraw {seed + 1} of {n}: {named}")
    return {kind: {"named": count, "of": n} for kind, count in named.items()}


@torch.no_grad()
def _randomise(scope: Scope, seed: int) -> None:
    """Draw every matrix anew, normal with its own standard deviation."""
    generator = torch.Generator().manual_seed(seed)
    for weight in scope.model.model.parameters():
        if weight.ndim >= 2:
            weight.copy_(torch.randn(weight.shape, generator=generator) * float(weight.std()))


def seconds(folder: Path, times: int) -> dict[str, float]:
    """Median seconds of a fresh process that loads the model and looks at a text; in turns with the embedded one."""
    found: dict[str, list[float]] = {"this": [], "embedded": []}
    for _ in range(times):
        for name, place in (("this", folder), ("embedded", EMBEDDED)):
            began = time.perf_counter()
            code = LOOK.format(folder=str(place))
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=300)
            found[name].append(time.perf_counter() - began)
    return {name: round(statistics.median(each), 2) for name, each in found.items()}


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of what ships: weights, tokenizer, film, and all of them."""
    names = {"weights": "model*.safetensors", "tokenizer": "tokenizer*.json", "film": "film.safetensors"}
    found = {name: sum(file.stat().st_size for file in folder.glob(pattern)) for name, pattern in names.items()}
    return found | {"all": sum(found.values())}


def samples(model: GPT, folder: Path) -> list[str]:
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    found = []
    for seed, prompt in enumerate(PROMPTS):
        ids, generator = torch.tensor(tokenizer.encode(prompt).ids), torch.Generator().manual_seed(seed)
        for _ in range(80):
            chances = torch.softmax(model(ids[None])[0, -1] / 0.7, dim=-1)
            ids = torch.cat((ids, torch.multinomial(chances, 1, generator=generator)))
        found.append(tokenizer.decode(ids.tolist()))
    return found


def judged(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All measures, one after the other, the quick ones first."""
    model, tokenizer = load_folder(given.folder), load_tokenizer(given.folder / "tokenizer.json")
    yield {"parameters": model.n_parameters(), "bytes": sizes(given.folder), "samples": samples(model, given.folder)}
    yield probe_scores(model)
    asked = {
        "indirect object": held_out.indirect_objects(given.questions),
        "pronoun": held_out.pronouns(given.questions),
    }
    by_order = {"first": asked["indirect object"][::2], "second": asked["indirect object"][1::2]}
    asked |= {f"indirect object, receiver named {order}": questions for order, questions in by_order.items()}
    asked["needle"] = held_out.needles(given.needles, NEEDLE_WORDS)
    for name, questions in asked.items():
        yield {name: answers(model, Task.of(tokenizer, questions))}
    if given.novels is not None:
        yield {"novels": novels_loss(model, given.folder, given.novels, given.window, given.tokens)}
    with load(given.folder, dtype=torch.float32) as scope:
        report = run_battery(scope.model, RoleOptions())
        yield {"weights": weight_hash(scope.model.model, torch.float32), "battery": report.to_dict(), **roles(report)}
        yield {"ablation": ablation_table(model, tasks_of(tokenizer), roles(report)["roles"])}
        if given.redraws:
            yield {"redraws": redraws(scope, given.redraws)}
    if given.times:
        yield {"seconds": seconds(given.folder, given.times)}


def goals(found: dict[str, Any]) -> dict[str, bool | None]:
    """Whether each goal is reached; None where it was not measured."""
    reached: dict[str, bool | None] = {}
    for name, holds in GOALS.items():
        try:
            reached[name] = holds(found)
        except KeyError:
            reached[name] = None
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--novels", type=Path, help="the prose of training, for the four held-out novels")
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=10**9, help="read about this many tokens of the novels at most")
    parser.add_argument("--questions", type=int, default=500, help="sentences of indirect objects and of pronouns")
    parser.add_argument("--needles", type=int, default=100, help="texts of 2,000 tokens")
    parser.add_argument("--redraws", type=int, default=100, help="random and shuffled redraws; 0 leaves them out")
    parser.add_argument("--times", type=int, default=5, help="fresh processes for the time to a first look; 0: none")
    parser.add_argument("--out", type=Path, help="write the report here as well")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for part in judged(given):
        found |= part
        log(", ".join(part), "measured")
        if given.out is not None:
            given.out.write_text(json.dumps(found | {"goals": goals(found)}, indent=1) + "\n", encoding="utf-8")
    shown = {name: value for name, value in found.items() if name != "battery"}
    print(json.dumps(shown, indent=2, ensure_ascii=False))
    for name, reached in goals(found).items():
        print(f"{'not measured' if reached is None else 'yes' if reached else 'NO':>12}  {name}")


if __name__ == "__main__":
    main()
