"""Packing a candidate: its files in place, a card and a report of these weights, and the old weights known by name."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
import torch
from bench.judge_model import GOALS, goals, roles
from bench.judged_tasks import Task, ablation_table
from bench.pack_model import REGENERATED, pack

from headscope.app.pages.roles import shipped
from headscope.errors import InputError
from headscope.heads.film import TrainingRecorder
from headscope.heads.roles.probes.repeat_probe import RepeatProbe
from headscope.heads.roles.run import RoleOptions, run_battery
from headscope.lab.train.gpt import GPT, GPTConfig
from headscope.lab.train.llama_folder import load_folder, save_folder
from headscope.lab.train.text_files import train_tokenizer
from headscope.models.weight_hash import weight_hash
from headscope.scope import load

ROOT = Path(__file__).parents[2]
WORDS = "the horse saw an old lamp there and the lamp was red. " * 40
ROWS = {"novels": 0.65, "code": 0.15, "generated": 0.2}


def candidate(run: Path, seed: int) -> Path:
    """A run's folder as training and judging leave it, of a model of one layer."""
    tokenizer = train_tokenizer([WORDS], 300)
    model = GPT(GPTConfig(vocabulary=300, d_model=16, n_layers=1, n_heads=2, context=64), seed=seed).eval()
    save_folder(model, tokenizer, run / "model")
    recorder = TrainingRecorder(model, probe=RepeatProbe(vocabulary=300, length=8))
    recorder.record(0, tokens_seen=2_000_000, force=True)
    recorder.film.save(run / "model" / "film.safetensors")
    with load(run / "model", dtype=torch.float32) as scope:
        report = run_battery(scope.model, RoleOptions(roles=("previous token",)))
        weights = weight_hash(scope.model.model, torch.float32)
    task = Task(((0, 5, 6), (0, 7)), (5, 7), (6, 8), 0)
    found = roles(report) | {
        "weights": weights, "battery": report.to_dict(), "samples": ["It was\nso."], "best": {"previous": ["0.0", 0.1]},
        "ablation": ablation_table(model, {"a task": task}, {"previous token": {"0.1": 0.5}}),
        "goals": dict.fromkeys(GOALS, True),
    }  # fmt: skip
    (run / "judged.json").write_text(json.dumps(found))
    kinds = {"scenes": [0.1, 0.05], "tables": [0.1, 0.15]}
    (run / "mixture.json").write_text(
        json.dumps({"rows": ROWS, "kinds": kinds, "command": "python -m bench.train_model"})
    )
    return run


def test_a_candidate_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    first, second = (candidate(tmp_path / name, seed) for seed, name in enumerate(("first", "second")))
    target = tmp_path / "embedded"
    pack(first, target, anyway=False)
    pack(second, target, anyway=False)

    same = zip(load_folder(target).parameters(), load_folder(second / "model").parameters(), strict=True)
    assert all(torch.equal(here, there) for here, there in same)
    assert [file.name for file in target.glob("model*")] == ["model.safetensors"]

    card = (target / "MODEL_CARD.md").read_text()
    listed = dict(re.findall(r"^\| `([\w.-]+)` \| `([0-9a-f]{64})` \|$", card, re.MULTILINE))
    assert {"film.safetensors", "tokenizer.json", "config.json"} < set(listed)
    assert all(hashlib.sha256((target / name).read_bytes()).hexdigest() == digest for name, digest in listed.items())
    assert "1 layers of 2 heads" in card
    assert "| generated: tables | 10.0 % | 15.0 % |" in card
    assert "> It was so." in card

    with load(target, dtype=torch.float32) as scope:
        assert shipped(scope, target / "heads.json") is not None


def test_a_candidate_that_misses_a_goal_or_was_not_the_one_judged_is_refused(tmp_path: Path) -> None:
    run = candidate(tmp_path / "run", 0)
    with pytest.raises(InputError, match=r"nothing lacks .*judged\.json.*; train and judge it first"):
        pack(tmp_path / "nothing", tmp_path / "embedded", anyway=False)
    judged = json.loads((run / "judged.json").read_text())
    judged["goals"]["pronouns: 90 %"] = False
    (run / "judged.json").write_text(json.dumps(judged))
    with pytest.raises(InputError, match=r"misses 1 goals: pronouns: 90 %"):
        pack(run, tmp_path / "embedded", anyway=False)
    (run / "judged.json").write_text(json.dumps(judged | {"weights": "0" * 64}))
    with pytest.raises(InputError, match=r"the weights judged are 000000000000, these are [0-9a-f]{12}"):
        pack(run, tmp_path / "embedded", anyway=True)


def test_goals_that_were_not_measured_are_not_reached() -> None:
    found = {"n_roles": 9, "missing": [], "pronoun": {"right": 0.9}, "needle": {"right": 0.89}}
    reached = goals(found)
    assert [reached[goal] for goal in GOALS if goal.startswith(("at least", "all of", "pronouns", "needle"))] == [
        True, True, True, False,
    ]  # fmt: skip
    assert reached["novels held out: at most 3.45 nats per token"] is None


@pytest.mark.parametrize("made", REGENERATED, ids=lambda made: made[0])
def test_every_regenerated_file_and_its_generator_exist(made: tuple[str, ...]) -> None:
    file, first, *rest = made
    assert (ROOT / file).exists()
    script = (
        ROOT / first
        if first != "-m"
        else next(
            path for tree in (ROOT, ROOT / "src") if (path := tree / (rest[0].replace(".", "/") + ".py")).exists()
        )
    )
    assert script.exists()
