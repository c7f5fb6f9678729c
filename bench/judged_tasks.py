"""Tasks on which a trained model is judged: right answers, and what ablating a role's heads does to each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from bench.curriculum import held_out
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import Tensor

from headscope.attention.observer import Call, observing, plain
from headscope.errors import InputError
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.lab.train.gpt import GPT

BATCH = 32
OWN_TASK = {  # the task that a role's heads should matter for
    "induction": "copying",
    "copying": "copying",
    "name mover": "indirect object",
    "S-inhibition": "indirect object",
    "coreference": "pronoun",
    "successor": "succession",
    "retrieval": "retrieval",
}


@dataclass(frozen=True)
class Task:
    """Rows of token ids with the right and a wrong next token; ``left_out`` had an answer of several tokens."""

    ids: tuple[tuple[int, ...], ...]
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    left_out: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, questions: Sequence[held_out.Question]) -> Task:
        found = []
        for question in questions:
            words = [
                tokenizer.encode(" " + each, add_special_tokens=False).ids for each in (question.right, question.wrong)
            ]
            if all(len(word) == 1 for word in words):
                found.append((tuple(tokenizer.encode(question.text).ids), words[0][0], words[1][0]))
        if not found:
            raise InputError(
                f"none of {len(questions)} questions has answers of one token; train the tokenizer with them"
            )
        ids, right, wrong = zip(*found, strict=True)
        return cls(ids, right, wrong, len(questions) - len(found))

    @torch.no_grad()
    def logits(self, model: GPT) -> Float[Tensor, "row vocabulary"]:
        """Logits after each row; rows are padded at their ends, which no earlier position attends to."""
        found = []
        for at in range(0, len(self.ids), BATCH):
            rows = self.ids[at : at + BATCH]
            longest = max(map(len, rows))
            ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
            ends = torch.tensor([len(row) - 1 for row in rows])
            found.append(model(ids)[torch.arange(len(rows)), ends])
        return torch.cat(found)

    def difference(self, model: GPT) -> float:
        """Mean logit of the right token minus the wrong one's."""
        logits, index = self.logits(model), torch.arange(len(self.ids))
        return float((logits[index, list(self.right)] - logits[index, list(self.wrong)]).mean())


def answers(model: GPT, task: Task) -> dict[str, float]:
    """How often the right word beats the wrong one, and how often it beats every other word."""
    logits, right = task.logits(model), torch.tensor(task.right)
    index = torch.arange(len(right))
    beats = logits[index, right] > logits[index, list(task.wrong)]
    lengths = [len(row) for row in task.ids]
    shares = {"right": beats.float().mean(), "first": (logits.argmax(1) == right).float().mean()}
    return {name: round(float(share), 4) for name, share in shares.items()} | {
        "questions": len(right),
        "left_out": task.left_out,
        "longest": max(lengths),
    }


def tasks_of(tokenizer: Tokenizer, n: int = 60) -> dict[str, Task]:
    """The tasks of the ablation table."""
    asked = {
        "indirect object": held_out.indirect_objects(n),
        "pronoun": held_out.pronouns(n),
        "succession": held_out.succession(n),
        "retrieval": held_out.needles(n // 2, 120),
    }
    return {name: Task.of(tokenizer, questions) for name, questions in asked.items()}


def ablation_table(
    model: GPT, tasks: Mapping[str, Task], roles: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """What each task loses without a role's heads: logit differences, and for copying nats per token gained."""

    def row() -> dict[str, float]:
        found = {name: round(task.difference(model), 3) for name, task in tasks.items()}
        first, second = copy_losses(model, range(1))
        return found | {"copying": round(first - second, 3)}

    whole = row()
    table = {"whole model": whole}
    for role, heads in roles.items():
        with ablated(model, set(heads)):
            without = row()
        table[role] = {name: round(whole[name] - value, 3) for name, value in without.items()}
    return table


@torch.no_grad()
def copy_losses(model: GPT, seeds: range = range(5)) -> tuple[float, float]:
    """Mean loss on random tokens and on the same tokens again."""
    found = []
    for seed in seeds:
        probe = RepeatProbe(vocabulary=model.config.vocabulary, seed=seed)
        tokens = probe.tokens()
        losses = probe.losses(model(tokens), tokens)
        found.append((losses.first, losses.second))
    first, second = (sum(each) / len(found) for each in zip(*found, strict=True))
    return first, second


@contextmanager
def ablated(model: GPT, heads: set[str]) -> Iterator[None]:
    """Mean-ablate these heads: their z is its mean over the rows and positions of the batch."""
    sites = {id(block.attention): str(layer) for layer, block in enumerate(model.blocks)}

    def observer(call: Call) -> Tensor:
        z = plain(call).clone()
        for head in range(z.shape[1]):
            if f"{sites[id(call.site)]}.{head}" in heads:
                z[:, head] = z[:, head].mean(dim=(0, 1), keepdim=True)
        return z

    with observing(observer):
        yield
