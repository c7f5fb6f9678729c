"""Circuits of tasks: built-in ground truth, edges patched against hand-made cuts, files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.heads.explain.families import FAMILIES, ROPE
from tests.lab import by_hand
from tests.models import tiny
from transformers import PreTrainedModel

import headscope
from headscope.errors import InputError, ModelError
from headscope.heads.explain.circuit import Circuit, Edge, Reader
from headscope.heads.explain.edge_attribution import score_edges, score_within
from headscope.heads.explain.edge_patching import Metric, PatchedModel, RecordedPairs
from headscope.models.native import NativeModel
from headscope.scope import Scope


def _olmoe() -> PreTrainedModel:
    """Experts that each see few tokens, and write as much as heads do: their weights are stacked, and drawn small."""
    model = tiny.build("OlmoeConfig", "OlmoeForCausalLM", **ROPE, num_experts=16)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 3:
                weight.mul_(10)
    return model


EDGES = {**FAMILIES, "olmoe": _olmoe}
CLEAN = torch.randint(3, 80, (3, 9), generator=torch.Generator().manual_seed(1))
OTHER = torch.cat((CLEAN[:, :4], CLEAN[:, 4:5].flip(0), CLEAN[:, 5:]), 1)


def _pairs(scope: Scope, clean: torch.Tensor, other: torch.Tensor, metric: Metric = torch.Tensor.mean) -> RecordedPairs:
    return RecordedPairs(PatchedModel(scope.model), {"input_ids": clean}, {"input_ids": other}, metric)


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3", "qwen3", "mixtral", "olmo2", "deepseek", "olmoe"])
def test_all_edges_are_the_clean_model_and_none_the_corrupted(family: str) -> None:
    with headscope.load(EDGES[family]()) as scope:
        pairs = _pairs(scope, CLEAN, OTHER)
        whole, none = pairs.logits(pairs.all_edges()), pairs.logits([])
        own = scope.model.run({"input_ids": CLEAN}).logits[:, -1:]
    torch.testing.assert_close(pairs.clean.logits, own, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(whole, pairs.clean.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(none, pairs.corrupted.logits, rtol=1e-4, atol=1e-4)


def test_a_cut_edge_is_all_edges_but_that_one() -> None:
    with headscope.load(FAMILIES["llama"]()) as scope:
        pairs = _pairs(scope, CLEAN, OTHER)
        edges = pairs.all_edges()
        for edge in (
            Edge("0.1", Reader("1.2", "k")),
            Edge("embedding", Reader("mlp 1")),
            Edge("mlp 0", Reader("logits")),
        ):
            assert edge in edges
            others = pairs.logits([each for each in edges if each != edge])
            cut = pairs.logits([edge], cut=True)
            torch.testing.assert_close(cut, others, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "olmo2"])
def test_scores_are_to_first_order_what_cutting_an_edge_costs(family: str) -> None:
    """Also where an MLP reads the stream without a norm: what goes past the MLP is no part of its edge."""
    with headscope.load(FAMILIES[family]().double()) as scope:
        clean = scope.model.embedding()[CLEAN].detach()
        near = clean + 1e-5 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0), dtype=clean.dtype)
        inputs = [{"inputs_embeds": each} for each in (clean, near)]
        pairs = RecordedPairs(PatchedModel(scope.model), *inputs, lambda logits: logits[:, -1, 5] - logits[:, -1, 9])
        scores = score_edges(pairs, at=1.0)
        largest = max(map(abs, scores.values()))
        for edge in scores:
            cost = pairs.best - pairs.mean(pairs.logits([edge], cut=True))
            assert scores[edge] == pytest.approx(cost, abs=1e-2 * largest), edge


def test_hand_built_induction_has_the_circuit_that_was_built_in() -> None:
    """The answer goes embedding → 0.0 → key of 1.0 → logits; edges that were built in rank above all others."""
    scope = Scope(NativeModel(by_hand._induction(by_hand.HandSizes(vocabulary=30, context=32))))
    draw = torch.Generator().manual_seed(0)
    clean, corrupted, answers = [], [], []
    for _ in range(8):
        tokens = torch.randperm(28, generator=draw)[:7].tolist()
        clean.append([*tokens[:6], tokens[1]])
        corrupted.append([tokens[0], tokens[1], tokens[6], *tokens[3:6], tokens[1]])
        answers.append((tokens[2], tokens[6]))
    found = scope.circuit(clean, corrupted, answers, wanted=0.9)
    assert set(found.edges) == {"embedding->1.0<v>", "1.0->logits"}
    assert found.nodes == ("embedding", "1.0", "logits")
    assert found.faithfulness >= 0.9
    assert found.held_out is not None
    assert found.held_out >= 0.9
    assert max(found.random) < 0.5
    assert found.curve[-1].edges <= len(found.scores)
    assert found.n_right == found.n_pairs + found.n_held_out == 8


@pytest.mark.parametrize("family", ["mixtral", "olmoe"])
def test_circuits_of_models_with_experts_are_found(family: str) -> None:
    """An MLP that is left out writes what it wrote in the corrupted pass, expert by expert."""
    answers = torch.randint(3, 80, (3, 2), generator=torch.Generator().manual_seed(2)).tolist()
    with headscope.load(EDGES[family]()) as scope:
        found = scope.circuit(CLEAN.tolist(), OTHER.tolist(), [(right, wrong) for right, wrong in answers], wanted=0.8)
    assert found.faithfulness >= 0.8
    assert 0 < len(found.edges) < len(found.scores)


def test_corrupting_the_mark_finds_the_mark() -> None:
    """When the token before the answer is corrupted, the change goes through 0.0 into the key of 1.0."""
    scope = Scope(NativeModel(by_hand._induction(by_hand.HandSizes(vocabulary=30, context=32))))
    clean = torch.tensor([[3, 7, 11, 5, 19, 2, 7], [9, 4, 13, 8, 21, 2, 4]])
    other = clean.clone()
    other[:, 1] = 17

    def metric(logits: torch.Tensor) -> torch.Tensor:
        return logits[:, -1].gather(1, clean[:, 2:3])[:, 0]

    scores = score_edges(_pairs(scope, clean, other, metric))
    built_in = {"0.0->1.0<k>", "embedding->0.0<v>", "1.0->logits"}
    ranked = sorted(scores, key=lambda edge: -abs(scores[edge]))
    assert {str(edge) for edge in ranked[:3]} == built_in


def test_edges_are_scored_in_the_circuit_that_holds_them() -> None:
    """Beside the two edges that carry the answer, those of a head that the answer does not need give it nothing."""
    scope = Scope(NativeModel(by_hand._induction(by_hand.HandSizes(vocabulary=30, context=32))))
    clean, other = torch.tensor([[3, 7, 11, 5, 19, 2, 7]]), torch.tensor([[3, 7, 23, 5, 19, 2, 7]])
    needed = [Edge("embedding", Reader("1.0", "v")), Edge("1.0", Reader("logits"))]
    idle = [Edge("embedding", Reader("0.0", "v")), Edge("0.0", Reader("1.0", "v"))]

    def metric(logits: torch.Tensor) -> torch.Tensor:
        return logits[:, -1, 11] - logits[:, -1, 23]

    pairs = _pairs(scope, clean, other, metric)
    faithful, scores = score_within(pairs, [*needed, *idle])
    value, without = (pairs.mean(pairs.logits(edges)) for edges in ([*needed, *idle], idle))
    assert faithful == pytest.approx(pairs.share(value), abs=1e-4)
    assert [scores[edge] for edge in needed] == pytest.approx([value - without] * 2, rel=1e-3)  # both are linear here
    assert [scores[edge] for edge in idle] == pytest.approx([0, 0], abs=1e-4)


def test_a_circuit_says_whether_the_model_can_do_the_task_and_lists_twenty_edges() -> None:
    values = (0.9, 1.42, (0.0,), (), 1.0, 0.0, 16, 16, 0.9)
    edges = {f"0.{index}->logits": 0.01 * index for index in range(30)}
    guessing = Circuit("m", "w", edges, {}, edges, *values, n_right=20)
    lines = str(guessing).splitlines()
    assert "prefers the right answer in 20 of 32 pairs, which is not clearly more than guessing" in lines[0]
    assert "keep 90% of the answer, 142% on 16 held-out pairs" in lines[1]
    assert lines[2].startswith("Over 100%: ")
    assert lines[3].startswith("The strongest edges, ")
    assert lines[4].split() == ["0.29->logits", "+0.290"]
    assert lines[-1] == "  … 10 more edges"
    assert len(lines) == 4 + 20 + 1
    assert len(guessing.listed(30).splitlines()) == 4 + 30
    able = str(replace(guessing, n_right=22, held_out=0.95))  # guessing is right so often in 2.5 % of cases
    assert able.startswith("30 of 30 edges")
    assert "100%" not in able


def test_files(tmp_path: Path) -> None:
    scope = Scope(NativeModel(by_hand._induction(by_hand.HandSizes(vocabulary=30, context=32))))
    with (tmp_path / "task.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["clean", "corrupted", "right"], ["a", "b", "c"]])
    with pytest.raises(InputError, match="no column wrong"):
        scope.circuit(str(tmp_path / "task.csv"))
    found = scope.circuit([[3, 7, 11, 5, 7]], [[3, 7, 12, 5, 7]], [(11, 12)])
    found.save(tmp_path / "circuit.json")
    saved = json.loads((tmp_path / "circuit.json").read_text())
    assert saved["schema_version"] == 1
    assert {name: saved[name] for name in found.to_dict()} == json.loads(json.dumps(found.to_dict()))
    assert saved["scores"] == found.scores
    mib = found.to_mib()
    assert mib["edges"]["a1.h0->logits"]["in_graph"]
    assert mib["nodes"]["input"]["in_graph"]
    assert '"1.0" -> "logits"' in found.to_graphviz()


def test_a_model_that_is_more_than_its_edges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope(NativeModel(by_hand._induction(by_hand.HandSizes(vocabulary=30, context=32))))
    ids = torch.tensor([[3, 7, 11, 5, 7]])
    every = [edge for edge in _pairs(scope, ids, ids).all_edges() if edge.reader.name != "logits"]
    monkeypatch.setattr(RecordedPairs, "all_edges", lambda pairs: every)
    with pytest.raises(ModelError, match="with all edges clean its logits differ from its own"):
        scope.circuit([[3, 7, 11, 5, 7]], [[3, 7, 12, 5, 7]], [(11, 12)])


def test_bad_input_is_refused() -> None:
    scope = Scope(NativeModel(by_hand._induction(by_hand.HandSizes(vocabulary=30, context=32))))
    with pytest.raises(InputError, match="1 clean texts, 0 corrupted ones, 0 answers"):
        scope.circuit([[1, 2]])
    with pytest.raises(InputError, match=r"texts of \[2, 3\] tokens"):
        scope.circuit([[1, 2]], [[1, 2, 3]], [(1, 2)])
    with pytest.raises(InputError, match="no difference to explain"):
        scope.circuit([[1, 2]], [[1, 2]], [(1, 2)])
    with pytest.raises(InputError, match="no task 'chess'; there are induction"):
        scope.circuit("chess")
