"""Arcs from a treebank: read, turned into roles, and found by a head written for one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headscope.errors import InputError
from headscope.heads.arcs import read_conllu, syntax_roles
from headscope.heads.examine import Options, heads
from headscope.heads.sentences import WORDS, arcs
from tests.heads.controls import noun_to_modifier, opened

COLUMNS = "{id}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t{misc}"


def treebank(path: Path, count: int) -> Path:
    """Sentences of our grammar: each noun's adjective is its amod, the word before any other word its dep."""
    lines = []
    for arc in arcs(("The <d:adjective> {person} saw the <t:adjective> {material} <q:object> there.",
                     "Of all <d:adjective> things this <t:adjective> <q:object> was the best."), count, 0):  # fmt: skip
        words = arc.text.replace(".", " .").split()
        at = {name: len(arc.text[: span[0]].replace(".", " .").split()) + 1
              for name, span in (("query", arc.query), ("target", arc.target))}  # fmt: skip
        lines.append(f"# text = {arc.text}")
        for number, word in enumerate(words, start=1):
            amod = number == at["target"]
            misc = "SpaceAfter=No" if number < len(words) and words[number] == "." else "_"
            head, relation = (at["query"], "amod") if amod else (number - 1, "dep" if number > 1 else "root")
            lines.append(COLUMNS.format(id=number, form=word, head=head, relation=relation, misc=misc))
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_treebank_is_read_with_its_spaces_and_heads(tmp_path: Path) -> None:
    sentences = read_conllu(treebank(tmp_path / "a.conllu", 2))
    assert len(sentences) == 2
    assert sentences[0].text.startswith("It was late. The ")
    word = sentences[0].relations.index("amod")
    start, stop = sentences[0].spans[word]
    assert sentences[0].text[start:stop] in WORDS["adjective"]
    head = sentences[0].spans[sentences[0].heads[word]]
    assert sentences[0].text[head[0] : head[1]] in WORDS["object"]


def test_a_head_that_finds_its_modifier_earns_the_relation_and_beats_the_fixed_offset(tmp_path: Path) -> None:
    sentences = read_conllu(treebank(tmp_path / "a.conllu", 40))
    own = syntax_roles(sentences, causal=True)
    assert "syntax: amod down" in {role.name for role in own}
    assert "syntax: amod up" not in {role.name for role in own}  # the noun comes later: a causal model cannot see it
    with torch.no_grad():
        model = opened(noun_to_modifier().eval())
    report = heads(model, Options(roles=(), own=own, controls=0, ablate=0))
    assert [finding.role for finding in report.findings] == ["syntax: amod down"]
    (found,) = report.findings
    assert found.score == 1.0
    assert found.evidence[0].rival == report.trial("syntax: amod down").baselines["amod down"] == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tThe\t_\n", r"bad.conllu, line 1: 3 columns; CoNLL-U has ten"),
        ("", "has no sentence in it"),
        (COLUMNS.format(id=1, form="a", head="x", relation="det", misc="_") + "\n", "line 1: the head is 'x'"),
        (
            COLUMNS.format(id=1, form="a", head=7, relation="det", misc="_") + "\n",
            "a head is word 7, but the sentence has 1",
        ),
    ],
)
def test_a_bad_treebank_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_conllu(path)


def test_too_few_sentences_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no relation stands in 20 or more of these 3 sentences"):
        syntax_roles(read_conllu(treebank(tmp_path / "a.conllu", 3)), causal=True)
