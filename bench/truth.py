"""Score roles and explanations on compiled models, in which every head's job is known.

Named right: the head's role is its job. Named wrong: it is another. Not named: it is none. Decoys have no job: any
name there is wrong.

    python -m bench.truth --out bench/results/truth.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from bench.programs import PROGRAMS

import headscope
from headscope.errors import HeadscopeError
from headscope.lab.compile import Compiled, CompileOptions, Program, compile_program
from headscope.lab.compile.programs import SELECTORS
from headscope.lab.compile.words import sample_texts
from headscope.scope import Scope

ROLES = {"previous token": "previous token", "after a copy": "induction", "copies": "duplicate token"}
"""Rules that the battery has a role for."""


def models(quick: bool, first_seed: int) -> Iterator[tuple[Program, CompileOptions]]:
    """Every selector alone and every program: rotated, noisy, beside decoys of several sharpnesses."""
    programs = [*(Program(rule, (rule,)) for rule in SELECTORS), *PROGRAMS.values()]
    for seed, program in enumerate(programs[:: 8 if quick else 1], first_seed):
        yield (
            program,
            CompileOptions(
                seed=seed,
                decoys=2,
                decoy_sharpness=(0.5, 1.5, 4.0)[seed % 3],
                noise=(0.02, 0.03)[seed % 2],
            ),
        )


def score_roles(compiled: Compiled, scope: Scope) -> Counter[str]:
    """What the battery says of heads whose job has a role, and of decoys."""
    roles = tuple(dict.fromkeys(ROLES.values()))
    report = scope.heads(headscope.RoleOptions(inputs=16, roles=roles, ablate=0))
    found = {finding.head: finding.role for finding in report.findings if finding.strongest}
    counts: Counter[str] = Counter()
    for head, job in compiled.truth.items():
        if job in ROLES:
            counts["named right"] += found.get(head) == ROLES[job]
            counts["named wrong"] += found.get(head) not in (None, ROLES[job])
            counts["not named"] += head not in found
        elif job is None:
            counts["decoys named"] += head in found
    return counts


WRITERS = {"after a copy": "previous token", "last after a copy": "previous token", "two after a copy": "2 back",
           "start of sentence": "previous token", "start of line": "previous token"}  # fmt: skip
"""Rules that read at the key what another head wrote there, and that head's rule."""


def score_explanations(compiled: Compiled, scope: Scope, seed: int) -> Counter[str]:
    """For heads that read another head's note: does the split of a score name that head as the strongest at the key?"""
    look = scope.look(sample_texts(1, 112, seed)[0])
    counts: Counter[str] = Counter()
    for head, job in compiled.truth.items():
        if job not in WRITERS:
            continue
        pattern = look.pattern(head).tril(-1)
        pattern[:, 0] = 0.0
        query, key = divmod(int(pattern[16:].argmax()), pattern.shape[1])
        try:
            strongest = max(look.why(head, query + 16, key).answered, key=lambda share: abs(share.value))
        except HeadscopeError:
            counts["not named"] += 1
            continue
        right = compiled.truth.get(strongest.name) == WRITERS[job]
        counts["named right" if right else "named wrong"] += 1
    return counts


def run(quick: bool, first_seed: int) -> dict[str, Any]:
    roles, explained = Counter[str](), Counter[str]()
    for number, (program, options) in enumerate(models(quick, first_seed)):
        compiled = compile_program(program, options)
        with headscope.load(compiled.model, compiled.tokenizer) as scope:
            explained += score_explanations(compiled, scope, options.seed)
            if any(job in ROLES for job in program.rules) and number % 2 == 0:
                roles += score_roles(compiled, scope)
        print(f"{number + 1}: {program.name}", flush=True)
    return {
        "seed": first_seed,
        "roles": {name: roles[name] for name in ("named right", "named wrong", "not named", "decoys named")},
        "explanations": {name: explained[name] for name in ("named right", "named wrong", "not named")},
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="other noise, rotations, decoys and texts")
    parser.add_argument("--quick", action="store_true", help="every eighth model")
    arguments = parser.parse_args()
    result = run(arguments.quick, arguments.seed)
    print(json.dumps(result, indent=1, ensure_ascii=False))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
