"""Write the embedded model's card from its judgement, its mixture and its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headscope.heads.film import Film

COPIES, ANSWERS = ("best", "first_copy", "second_copy"), ("indirect object", "pronoun", "needle", "novels")
MEASURED = (*COPIES, *ANSWERS, "redraws", "seconds", "bytes")
CARD = """---
license: apache-2.0
language: en
library_name: transformers
---
# The built-in model

A small language model whose heads do things that can be seen: it ships inside headscope, so that the microscope shows
something true the moment it is installed. It is the Llama architecture: {layers} layers of {heads} heads that share
{kv_heads} key/value heads, width {width}, a gated MLP of {mlp}, a vocabulary of {vocabulary:,}, tied embeddings, RoPE,
trained up to a context of {context:,}. It is for looking at, not for answering questions.

`film.safetensors` beside it is the record of its training: what every head did, from the first step to the last.
`census.zip` is a census of its heads on a small text that it was not trained on, made by `python -m bench.census`.

## Roles

By the battery (`headscope heads`), strongest head first; {without} heads have none.

{roles}

What each task loses when a role's heads are mean-ablated together (logit difference of the right and a wrong word;
copying: nats per token gained on a second copy):

{ablation}

## Measured

On the shipped weights, in float32 (`python -m bench.judge_model`). *right*: the right word before the wrong one;
*first*: before every other word; names and templates of these questions do not occur in the generated text.

```json
{measured}
```

{goals}

Three samples at temperature 0.7, as they came:

{samples}

## Data

{data}

At most a fifth of the rows is generated (`bench/curriculum`). No sentence, template or name of the battery's probes or
of the questions above occurs in that part: `bench/curriculum/honesty.py` refuses it, and a test compares.

## Training

```
{command}
```

{points} points of the film, {tokens:,.0f} million tokens.

## Files

| file | SHA-256 |
| --- | --- |
{files}
"""


def card(judged: Mapping[str, Any], mixture: Mapping[str, Any], folder: Path) -> str:
    """The card of the model in this folder."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    film = Film.load(folder / "film.safetensors")
    measured = {name: judged[name] for name in MEASURED if name in judged}
    return CARD.format(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        width=config["hidden_size"],
        mlp=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        context=config["trained_context"],
        without=judged["heads without"],
        roles=_table(("role", "heads"), [(role, _heads(heads)) for role, heads in judged["roles"].items()]),
        ablation=_ablation(judged["ablation"]),
        measured=json.dumps(measured, indent=2, ensure_ascii=False),
        goals=_goals(judged["goals"]),
        samples="\n\n".join(f"> {' '.join(sample.split())}" for sample in judged["samples"]),
        data=_data(mixture),
        command=mixture["command"],
        points=len(film.points),
        tokens=film.points[-1].tokens_seen / 1e6,
        files="\n".join(f"| `{name}` | `{digest}` |" for name, digest in _hashes(folder).items()),
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = (head, tuple("---" for _ in head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _heads(heads: Mapping[str, float]) -> str:
    return ", ".join(f"{head} ({score:.2f})" for head, score in heads.items())


def _ablation(table: Mapping[str, Mapping[str, float]]) -> str:
    tasks = tuple(next(iter(table.values())))
    return _table(
        ("without", *tasks), [(row, *(f"{values[task]:.2f}" for task in tasks)) for row, values in table.items()]
    )


def _goals(goals: Mapping[str, bool | None]) -> str:
    said = {True: "reached", False: "missed", None: "not measured"}
    return _table(("goal", ""), [(goal, said[reached]) for goal, reached in goals.items()])


def _data(mixture: Mapping[str, Any]) -> str:
    """Each kind's share of rows in both stages."""
    total = sum(mixture["rows"].values())
    rows = [(name, *[f"{100 * share / total:.1f} %"] * 2) for name, share in mixture["rows"].items()]
    rows += [
        (f"generated: {name}", f"{100 * a:.1f} %", f"{100 * b:.1f} %") for name, (a, b) in mixture["kinds"].items()
    ]
    return _table(("rows of", "short stage", "long stage"), rows)


def _hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file but the card and what is marked with the weights' hash itself."""
    left_out = {"MODEL_CARD.md", "heads.json"}
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name not in left_out)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
