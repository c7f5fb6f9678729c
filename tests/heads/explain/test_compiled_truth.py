"""Explanations on compiled models, whose heads are known: the writer of every arrow, the edges of a circuit, files."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from bench.programs import PROGRAMS

import headscope
from headscope.heads.explain.circuit import Edge
from headscope.heads.explain.edge_attribution import score_edges
from headscope.heads.explain.edge_patching import PatchedModel, RecordedPairs
from headscope.lab.compile import Compiled, CompileOptions, compile_program
from headscope.lab.compile.programs import Program
from headscope.lab.compile.words import VOCABULARY, sample_texts

# Programs with one head that writes notes and one that reads them; the others answer by themselves, or are decoys.
NAMES = ["induction", "induction on the last copy", "look up a name", "copying machine"]
READS_NOTES = ("after a copy", "last after a copy")
SHARP = {  # the softmax of these switches over within a few hundredths of the way from corrupted to clean
    109: Program("sharp", ("function words, near 8", "last after a copy", "function words, near 3")),
    110: Program("sharp too", ("last after a copy", "function words", "content words")),
}


def _compiled(program: Program, seed: int = 3) -> tuple[Compiled, str, str]:
    """A program beside decoys in a rotated, noisy stream; the head that writes notes, and the one that reads them."""
    compiled = compile_program(program, CompileOptions(context=64, seed=seed))
    (writer,) = (head for head, rule in compiled.truth.items() if rule == "previous token")
    (reader,) = (head for head, rule in compiled.truth.items() if rule in READS_NOTES)
    return compiled, writer, reader


def _texts(rows: int) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Different words, the last one a copy; in the corrupted text the word that it is a copy of is another one."""
    draw = torch.Generator().manual_seed(0)
    plain = [index for index, word in enumerate(VOCABULARY) if re.fullmatch(" [a-z]+", word)]
    clean, corrupted, answers = [], [], []
    for _ in range(rows):
        words = [plain[index] for index in torch.randperm(len(plain), generator=draw)[:14].tolist()]
        text = [*words[:12], words[5]]
        clean.append(text)
        corrupted.append([*text[:5], words[13], *text[6:]])
        answers.append(words[6])
    return clean, corrupted, answers


def _auroc(scores: Mapping[Edge, float], truth: set[str]) -> float:
    """The chance that an edge that was built in ranks above one that was not."""
    own = torch.tensor([abs(score) for edge, score in scores.items() if str(edge) in truth])
    others = torch.tensor([abs(score) for edge, score in scores.items() if str(edge) not in truth])
    assert len(own) == len(truth)
    return float(((own[:, None] > others).double() + 0.5 * (own[:, None] == others).double()).mean())


@pytest.mark.parametrize("name", NAMES)
def test_every_arrow_was_led_by_the_head_that_was_compiled_to_lead_it(name: str) -> None:
    compiled, writer, reader = _compiled(PROGRAMS[name])
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        look = scope.look(sample_texts(1, 40, seed=5)[0])
        weights, keys = look.pattern(reader).max(-1)
        found = [row for row in range(40) if float(weights[row]) > 0.5 and int(keys[row]) > 0]
        assert len(found) > 8
        for row in found:
            answered = look.why(reader, row, int(keys[row])).answered
            assert max(answered, key=lambda share: share.value).name == writer, row


@pytest.mark.parametrize(
    ("program", "seed"),
    [
        *((PROGRAMS[name], 3) for name in NAMES[:2]),
        *(pytest.param(PROGRAMS[name], 3, marks=pytest.mark.slow) for name in NAMES[2:]),
        *(pytest.param(each, seed, marks=pytest.mark.slow) for seed, each in SHARP.items()),
    ],
)
def test_edges_that_were_compiled_rank_above_all_others(program: Program, seed: int) -> None:
    compiled, writer, reader = _compiled(program, seed)
    *texts, answers = _texts(8)
    right = torch.tensor(answers)[:, None]
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        inputs = ({"input_ids": torch.tensor(ids)} for ids in texts)
        pairs = RecordedPairs(PatchedModel(scope.model), *inputs, lambda logits: logits[:, -1].gather(1, right)[:, 0])
        scores = score_edges(pairs)
    assert _auroc(scores, {f"embedding->{writer}<v>", f"{writer}->{reader}<k>", f"{reader}->logits"}) >= 0.95


@pytest.mark.slow
def test_a_task_in_a_csv_file_gives_a_circuit_that_is_drawn_edge_by_edge(tmp_path: Path) -> None:
    compiled, writer, reader = _compiled(PROGRAMS["induction"])
    clean, corrupted, answers = _texts(6)
    with headscope.load(compiled.model, compiled.tokenizer) as scope:
        said = [["".join(VOCABULARY[index] for index in ids) for ids in texts] for texts in (clean, corrupted)]
        pairs = [(VOCABULARY[answer], VOCABULARY[ids[0]]) for answer, ids in zip(answers, clean, strict=True)]
        with (tmp_path / "task.csv").open("w", newline="", encoding="utf-8") as file:
            named = zip(*said, *zip(*pairs, strict=True), strict=True)
            csv.writer(file).writerows([["clean", "corrupted", "right", "wrong"], *named])
        found = scope.circuit(str(tmp_path / "task.csv"), wanted=0.9)
        assert found.edges == scope.circuit(*said, pairs, wanted=0.9).edges
        assert set(found.edges) == {f"embedding->{writer}<v>", f"{writer}->{reader}<k>", f"{reader}->logits"}
    first, *lines, last = found.to_graphviz().splitlines()
    assert (first, lines[0], last) == ("digraph circuit {", "  rankdir=BT;", "}")
    drawn = [
        re.fullmatch(r'  "([^"]+)" -> "([^"]+)" \[label="([qkv]?) ?([+-]\d+\.\d\d)"\];', line) for line in lines[1:]
    ]
    edges = {f"{each[1]}->{each[2]}" + (f"<{each[3]}>" if each[3] else "") for each in drawn if each}
    assert edges == set(found.edges)
