"""Measure again what headscope says of heads in words, on stories of another kind than those that it ships numbers for.

Every number is counted over the attention of plain transformers; a row says what was counted, and what was said.

    python -m bench.words --out bench/results/words.json [smollm2]
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

import headscope
from headscope.app.pages.roles import shipped
from headscope.heads.explain.circuit_tasks import task_pairs
from headscope.heads.roles.probes.grammar import arcs
from headscope.heads.roles.report import Report
from headscope.models.fetch import fetched
from headscope.scope import EMBEDDED, Scope

STORIES = (
    "Once upon a time there was a little girl named Lily. Lily had a red ball. One day the ball rolled under a big "
    "tree. “Oh no!” said Lily. A small bird came and said, “I can help you.” The bird pushed the ball, and the ball "
    "rolled back to Lily. Lily was very happy. She said, “Thank you, little bird!” They played all day.",
    "Tim and his mom went to the park. Tim saw a dog. The dog was big and brown, and the dog wagged its tail. Tim "
    "asked, “Mom, can I pet the dog?” Mom said, “First ask the man.” The man smiled and said yes. So Tim pet the dog. "
    "When they went home, Tim told his dad about the dog.",
    "There was a fish who wanted to fly. Every day the fish jumped out of the pond, and every day it fell back. The "
    "frogs laughed. “Fish do not fly,” they said. Then a strong wind came. The fish jumped, the wind blew, and the "
    "fish flew over the frogs! The frogs did not laugh any more.",
    "Ben found a key in the snow. He tried the key in the blue door, but the blue door did not open. He tried it in "
    "the green door, and the green door did not open. At last he came to a tiny box. The key fit! In the box there "
    "was another key, and under it a note: “Try the blue door again.”",
)
FRAMES = (
    "The <t:person> whom we met after the <d:person> <q:verb> again.",
    "Without the <d:person> the <t:person> <q:verb> again.",
    "Since the <d:person> had left, the <t:person> at the door <q:verb> again.",
    "The <t:person>, who liked the <d:person>, <q:verb> again.",
)
"""Sentence frames that neither the role's test nor its tests use."""
PERCENT = r"(under 1%|over 99%|\d+%)"
FAR = ("elsewhere (5 to 16 tokens away)", "elsewhere (17 to 64 tokens away)", "elsewhere (farther away)")


class Plain:
    """The model in transformers, with its texts as ids and tokens."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)

    @torch.no_grad()
    def read(self, text: str) -> tuple[list[int], list[str], Tensor]:
        """Ids, tokens, and patterns ``[layer, head, query, key]``."""
        ids = self.tokenizer(text)["input_ids"]
        made = self.model(torch.tensor([ids]), output_attentions=True)
        return ids, [str(self.tokenizer.decode([each])) for each in ids], torch.cat(made.attentions).double()

    @torch.no_grad()
    def loss(self, off: Sequence[str] = ()) -> float:
        """Mean loss on the stories with the outputs of some heads set to zero before W_O."""
        hooks = []
        for layer, block in enumerate(self.model.model.layers):
            size = self.model.config.head_dim
            columns = [int(head.split(".")[1]) * size + at for head in off if head.split(".")[0] == str(layer)
                       for at in range(size)]  # fmt: skip

            def hide(_: Any, given: tuple[Tensor], columns: list[int] = columns) -> tuple[Tensor]:
                return (given[0].index_fill(-1, torch.tensor(columns, dtype=torch.long), 0.0),)

            hooks.append(block.self_attn.o_proj.register_forward_pre_hook(hide))
        rows = [torch.tensor([self.tokenizer(text)["input_ids"]]) for text in STORIES]
        losses = [float(self.model(row, labels=row).loss) for row in rows]
        for hook in hooks:
            hook.remove()
        return sum(losses) / len(losses)


def kinds(ids: list[int], tokens: list[str], i: int, j: int) -> set[str]:
    """Every class that a key fits."""
    key = tokens[j].strip()
    end = "\n" in tokens[j] or bool(re.fullmatch(r"""[.!?…]+["'”’)\]]*""", key))
    fits = {
        "the token itself": i == j,
        "the token that followed an earlier copy": i > j and ids[j - 1] == ids[i],
        "an earlier copy": i > j and ids[j] == ids[i],
        "the previous token": i - j == 1,
        "2 to 4 tokens back": 2 <= i - j <= 4,
        "an end of a sentence or line": end,
        "other punctuation": bool(re.fullmatch(r"[\W_]+", key)) and not end,
    }
    return {name for name, yes in fits.items() if yes} or {FAR[(i - j > 16) + (i - j > 64)]}


def counted(plain: Plain) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The attention ``[layer, head]`` that each class gets, measured alone, and at what share of rows it occurs."""
    got: dict[str, Any] = {}
    there: dict[str, float] = {}
    read = [plain.read(text) for text in STORIES]
    rows = sum(len(ids) - 1 for ids, _, _ in read)
    for ids, tokens, pattern in read:
        for i in range(1, len(ids)):
            seen = {"first token"}
            got["first token"] = got.get("first token", 0.0) + pattern[:, :, i, 0] / rows
            for j in range(1, i + 1):
                for name in kinds(ids, tokens, i, j):
                    got[name] = got.get(name, 0.0) + pattern[:, :, i, j] / rows
                    seen.add(name)
            there |= {name: there.get(name, 0.0) + 1 / rows for name in seen}
    return got, there


def differs(said: str, share: float) -> float:
    """By how much a percentage in words misses a number, beyond its rounding."""
    low, high = {"under 1%": (0.0, 0.01), "over 99%": (0.99, 1.0)}.get(said) or (
        int(said[:-1]) / 100 - 0.005,
        int(said[:-1]) / 100 + 0.005,
    )
    return max(low - share, share - high, 0.0)


def said_in(sentence: str) -> Iterator[tuple[str, str, str | None]]:
    """Percentage, class, and at what share of positions there is one."""
    for part in re.finditer(
        rf"{PERCENT} (?:of its attention (?:outside the first token )?)?goes (?:to )?(?:the (?=first token))?"
        rf"(.*?)(?: \(there is one at {PERCENT} of positions\))?(?:, (?=\d|un|ov)|\.(?= Of|$))",
        sentence,
    ):
        yield part[1], part[2], part[3]


def partition(scope: Scope, plain: Plain) -> dict[str, Any]:
    """Every percentage of every head's sentence, against the count."""
    got, there = counted(plain)
    worst, numbers = 0.0, 0
    for head, found in scope.where(STORIES).heads.items():
        layer, at = int(head.site), head.head
        rest = 1 - float(got["first token"][layer, at])
        for said, name, where in said_in(str(found)):
            share = float(got[name][layer, at]) / (1 if name == "first token" else rest)
            worst = max(worst, differs(said, share), 0.0 if where is None else differs(where, there[name]))
            numbers += 1
    return {"percentages": numbers, "largest_miss_beyond_rounding": round(worst, 4)}


def first_token(scope: Scope, plain: Plain, report: Report) -> dict[str, Any]:
    """The heads that pass only for the first token: what it gets in the stories, and what they cost there."""
    only = [head for head in report.named if {each.role for each in report.of(head)} == {"first token"}]
    got, _ = counted(plain)
    shares = {head: float(got["first token"][tuple(map(int, head.split(".")))]) for head in only}
    rest = [str(head) for head in scope.shape.heads() if str(head) not in only]
    whole = plain.loss()
    others = [plain.loss(random.Random(seed).sample(rest, len(only))) - whole for seed in range(5)]
    return {
        "heads": len(only),
        "said": str(report).splitlines()[0],
        "share": {"mean": round(sum(shares.values()) / len(shares), 3), "least": round(min(shares.values()), 3)},
        "loss_rises_without_them": round(plain.loss(only) - whole, 3),
        "without_as_many_others": [round(each, 3) for each in sorted(others)],
    }


def arrows(scope: Scope, count: int = 240) -> dict[str, Any]:
    """Strongest keys of random rows: what their sentences say, and what the split of the key side has."""
    draw, looks = random.Random(0), [scope.look(text) for text in STORIES]
    none, wrong, would, layer_0, tried = 0, 0, 0, 0, 0
    for _ in range(count):
        look = draw.choice(looks)
        head, query = draw.choice(look.shape.heads()), draw.randrange(4, len(look.tokens))
        why = look.why(head, query)
        said, largest = why.sentence, max(each.value * (1 if why.total > 0 else -1) for each in why.answered)
        alone = largest >= 0.4 * abs(why.total)
        none += (single := "No single component" in said)
        wrong += single and alone
        would += "would do" in said or "another token" in said
        if head.site == look.sites[0]:
            tried += 1
            layer_0 += bool(re.search(r"attends from|MLP|head \d+\.\d+ \(", said))
    return {
        "arrows": count,
        "no_single_component": none,
        "of_them_with_one_of_0.4_or_more": wrong,
        "that_another_token_would_do": would,
        "in_layer_0": tried,
        "in_layer_0_with_something_read_before": layer_0,
    }


def subjects(scope: Scope, plain: Plain, report: Report) -> dict[str, Any]:
    """Heads with the role verb to subject: subject and other person in frames that nothing used."""
    found = {}
    for finding in report.with_role("verb to subject"):
        layer, at = map(int, finding.head.split("."))
        rows = []
        for seed, frame in enumerate(FRAMES * 8):
            arc = arcs((frame,), 1, seed)[0]
            made = plain.tokenizer(arc.text, return_offsets_mapping=True)
            spans = made["offset_mapping"]
            query, target, other = ([n for n, (a, b) in enumerate(spans) if a < stop and b > start]
                                    for start, stop in (arc.query, arc.target, arc.distractor))  # fmt: skip
            row = plain.read(arc.text)[2][layer, at, query[-1]]
            rows.append((float(row[target].sum()), float(row[other].sum())))
        found[finding.head] = {
            "subject": round(sum(each for each, _ in rows) / len(rows), 3),
            "other_person": round(sum(each for _, each in rows) / len(rows), 3),
        }
    return found


@torch.no_grad()
def circuits(scope: Scope, plain: Plain) -> dict[str, Any]:
    """How often the model prefers the right answer, and whether the circuit begins with a warning."""
    found = {}
    for task in ("indirect object", "induction"):
        pairs, right = task_pairs(scope.model, task), 0
        for text, answers in zip(pairs.clean, pairs.answers, strict=True):
            ids = plain.tokenizer(text)["input_ids"] if isinstance(text, str) else text
            logits = plain.model(torch.tensor([ids])).logits[0, -1]
            one, other = (scope.model.processor.token_id(each) for each in answers)
            right += int(logits[one] > logits[other])
        found[task] = {
            "right": right,
            "pairs": len(pairs.clean),
            "warns": str(scope.circuit(task)).startswith("Warning"),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="models that ship with a report, such as smollm2, after the embedded")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for name in (None, *given.models):
        plain = Plain(EMBEDDED if name is None else fetched(name) or Path(name))
        with headscope.load(name, dtype=torch.float32) as scope:
            report = shipped(scope)
            assert report is not None, "no report ships with these weights"
            found[scope.shape.name] = {
                "where its attention goes": partition(scope, plain),
                "first token": first_token(scope, plain, report),
                "arrows": arrows(scope),
                "verb to subject": subjects(scope, plain, report),
                "circuits": circuits(scope, plain),
            }
        print(json.dumps(found[scope.shape.name], indent=1, ensure_ascii=False), flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
