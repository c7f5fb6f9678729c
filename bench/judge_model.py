"""Evaluate a trained model: ``python bench/judge_model.py FOLDER --novels novels.jsonl.xz``.

Prints JSON: loss on the held-out novels, repeat-probe scores over several seeds, the effect of ablating the induction
heads, how often a name completes the IOI sentence, and three samples of text.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from name_stories import MEN, WOMEN
from torch import Tensor

from headscope.attention.observer import Call, observing, plain
from headscope.heads.questions.standard_questions import STANDARD
from headscope.heads.roles.probes.repeat_probe import CopyLoss, RepeatProbe, head_scores
from headscope.lab.train.gpt import GPT
from headscope.lab.train.llama_folder import load_folder
from headscope.lab.train.text_files import encode, read_documents
from headscope.lab.train.tokenizer import load_tokenizer

SEEDS = range(5)
NAMES = [
    "Mary",
    "John",
    "James",
    "George",
    "William",
    "Henry",
    "Charles",
    "Thomas",
    "Robert",
    "Edward",
    "Anne",
    "Jane",
    "Alice",
    "Lucy",
    "Rose",
    "Margaret",
]
PROMPTS = ("It was a cold evening when", "The old man looked at her and said", "She opened the letter, and")


@contextmanager
def ablated(model: GPT, heads: set[str]) -> Iterator[None]:
    """Zero-ablate these heads."""
    sites = {id(block.attention): str(layer) for layer, block in enumerate(model.blocks)}

    def observer(call: Call) -> Tensor:
        z = plain(call).clone()
        for head in range(z.shape[1]):
            if f"{sites[id(call.site)]}.{head}" in heads:
                z[:, head] = 0.0
        return z

    with observing(observer):
        yield


@torch.no_grad()
def copy_loss(model: GPT, heads: set[str], seeds: range = SEEDS) -> CopyLoss:
    found = []
    for seed in seeds:
        probe = RepeatProbe(vocabulary=model.config.vocabulary, seed=seed)
        tokens = probe.tokens()
        with ablated(model, heads):
            found.append(probe.losses(model(tokens), tokens))
    return CopyLoss(statistics.mean(loss.first for loss in found), statistics.mean(loss.second for loss in found))


def scores(model: GPT) -> dict[str, dict[str, float]]:
    """Each question's score per head, averaged over seeds."""
    probes = [RepeatProbe(vocabulary=model.config.vocabulary, seed=seed) for seed in SEEDS]
    seen = [head_scores(model, probe.tokens())[0] for probe in probes]
    means = {name: torch.stack([each.mean(name) for each in seen]).mean(0) for name in STANDARD}
    return {name: dict(zip(seen[0].heads, values.tolist(), strict=True)) for name, values in means.items()}


def ablation(model: GPT, induction: dict[str, float]) -> dict[str, float]:
    """Gain from context of the whole model, without its induction heads, and without as many random others."""
    chosen = {head for head, score in induction.items() if score >= 0.5}
    others = sorted(set(induction) - chosen)
    draw = random.Random(0)
    random_gains = [copy_loss(model, set(draw.sample(others, len(chosen))), range(1)).gain for _ in range(10)]
    return {
        "n_heads": len(chosen),
        "gain": copy_loss(model, set()).gain,
        "gain_without": copy_loss(model, chosen).gain,
        "gain_without_random_median": statistics.median(random_gains),
        "gain_without_random_least": min(random_gains),
    }


@torch.no_grad()
def novels_loss(model: GPT, folder: Path, novels: Path, window: int, most: int) -> dict[str, float]:
    """Nats per token and per byte, over windows that begin with the start token."""
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    nats = n_tokens = n_bytes = 0.0
    for document in read_documents(novels):
        if not document.held_out:
            continue
        tokens = encode(tokenizer, [document])[1:].long()
        rows = tokens[: len(tokens) // window * window].view(-1, window)[:: max(1, 4 * len(tokens) // most)]
        loss = sum(float(model.loss(torch.nn.functional.pad(row[None], (1, 0))).sum()) for row in rows)
        print(f"  {document.title}: {loss / rows.numel():.3f} nats per token over {rows.numel()} tokens", flush=True)
        nats, n_tokens = nats + loss, n_tokens + rows.numel()
        n_bytes += sum(len(tokenizer.decode(row.tolist()).encode()) for row in rows)
    return {"nats_per_token": nats / n_tokens, "nats_per_byte": nats / n_bytes, "tokens": n_tokens, "window": window}


@torch.no_grad()
def names(model: GPT, folder: Path) -> dict[str, float]:
    """How often the IOI sentence is completed with a name, and with the right one, over 20 pairs of names."""
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    known = {tokenizer.encode(" " + name, add_special_tokens=False).ids[0]: name for name in WOMEN + MEN}
    draw = random.Random(1)
    name = right = mass = 0.0
    for _ in range(20):
        first, second = draw.sample(NAMES, 2)
        text = f"When {first} and {second} went to the shop, {second} gave a book to"
        chances = torch.softmax(model(torch.tensor([tokenizer.encode(text).ids]))[0, -1], dim=-1)
        best = known.get(int(chances.argmax()))
        name, right = name + (best is not None), right + (best == first)
        mass += float(chances[list(known)].sum())
    return {"a_name": name / 20, "the_right_name": right / 20, "mean_probability_of_a_name": mass / 20}


def samples(model: GPT, folder: Path) -> list[str]:
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    found = []
    for seed, prompt in enumerate(PROMPTS):
        new = model.generate(torch.tensor(tokenizer.encode(prompt).ids), 80, temperature=0.7, seed=seed)
        found.append(prompt + tokenizer.decode(list(new)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--novels", type=Path, help="the prose of training, for the four held-out novels")
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=10**9, help="read about this many tokens of the novels at most")
    given = parser.parse_args()
    model = load_folder(given.folder)
    found = scores(model)
    best = {name: max(heads.items(), key=lambda pair: pair[1]) for name, heads in found.items()}
    copies = copy_loss(model, set())
    judged: dict[str, object] = {
        "best": best,
        "induction_heads": {head: round(score, 3) for head, score in found["induction"].items() if score >= 0.3},
        "first_copy": copies.first,
        "second_copy": copies.second,
        "ablation": ablation(model, found["induction"]),
        "names": names(model, given.folder),
        "samples": samples(model, given.folder),
    }
    if given.novels is not None:
        judged["novels"] = novels_loss(model, given.folder, given.novels, given.window, given.tokens)
    print(json.dumps(judged, indent=2))


if __name__ == "__main__":
    main()
