"""Treebanks: reading CoNLL-U, roles for its relations, and a head that earns one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.heads.controls import noun_to_modifier, opened

from headscope.errors import InputError
from headscope.heads.roles.probes.grammar import WORDS, arcs
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.heads.roles.run import RoleOptions, run_battery
from headscope.heads.roles.treebank import read_conllu, syntax_roles, treebank_roles

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
    report = run_battery(model, RoleOptions(roles=(), own=own, controls=0, ablate=0))
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
def test_a_bad_treebank_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_conllu(path)


def test_too_few_sentences_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no relation occurs in 20 or more of these 3 sentences"):
        syntax_roles(read_conllu(treebank(tmp_path / "a.conllu", 3)), causal=True)


def conllu(*rows: tuple[str, str, int, str] | tuple[str, str, int, str, str]) -> str:
    """Lines of (id, form, head, relation, and what else is known)."""
    full = [(*row, "_")[:5] for row in rows]
    return "\n".join(COLUMNS.format(id=i, form=f, head=h, relation=r, misc=m) for i, f, h, r, m in full) + "\n\n"


def test_contractions_and_empty_nodes_are_not_words_and_subtypes_are_their_relation(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    rows = (("1-2", "don't", 0, "_"), ("1", "do", 3, "aux:neg", "SpaceAfter=No"), ("2", "n't", 3, "advmod"),
            ("2.1", "gone", 0, "_"), ("3", "go", 0, "root"))  # fmt: skip
    path.write_text("# a comment\n" + conllu(*rows) + "\n\n# another\n" + conllu(("1", "Go", 0, "root"))[:-2])
    first, second = read_conllu(path)
    assert (first.text, first.heads, first.relations) == ("don't go", (2, 2, -1), ("aux", "advmod", "root"))
    assert [first.text[start:stop] for start, stop in first.spans] == ["do", "n't", "go"]
    assert (second.text, second.heads) == ("Go", (-1,)), "a file may end without an empty line"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_bytes(b"\xff\xfe\x00")
    for name in ("a.conllu", "none.conllu"):
        with pytest.raises(InputError, match=rf"{name} cannot be read as CoNLL-U: "):
            read_conllu(tmp_path / name)


@pytest.mark.parametrize("causal", [True, False])
def test_a_causal_model_is_tested_only_on_arcs_that_look_back(tmp_path: Path, causal: bool) -> None:
    """Each noun stands after its adjective: the noun may look back at it, the adjective not ahead."""
    path = tmp_path / "a.conllu"
    path.write_text(conllu(("1", "old", 2, "amod"), ("2", "house", 0, "root")) * 20)
    names = {role.name: role for role in syntax_roles(read_conllu(path), causal=causal)}
    assert set(names) == {"syntax: amod down"} | (set() if causal else {"syntax: amod up"})
    assert names["syntax: amod down"].sentence == "The head of “amod” looks at its dependent."
    if not causal:
        assert names["syntax: amod up"].sentence == "The dependent of “amod” looks at its head."


def test_a_relation_counts_sentences_and_not_arcs(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    twice = conllu(("1", "old", 3, "amod"), ("2", "red", 3, "amod"), ("3", "house", 0, "root"))
    path.write_text(twice * 19)
    with pytest.raises(InputError, match="no relation occurs in 20 or more of these 19 sentences"):
        syntax_roles(read_conllu(path), causal=True)
    path.write_text(twice * 20)
    assert [role.name for role in syntax_roles(read_conllu(path), causal=True)] == ["syntax: amod down"]


def test_the_baseline_is_the_offset_that_is_right_most_often(tmp_path: Path) -> None:
    """Twelve nouns stand one word after their adjective, eight stand two words after it."""
    near = conllu(("1", "The", 3, "det"), ("2", "old", 3, "amod"), ("3", "table", 0, "root"))
    far = conllu(("1", "The", 4, "det"), ("2", "old", 4, "amod"), ("3", "iron", 4, "nn"), ("4", "table", 0, "root"))
    path = tmp_path / "a.conllu"
    path.write_text(near * 12 + far * 8)
    with torch.no_grad():
        model = opened(noun_to_modifier().eval())
    roles = treebank_roles(model, path)
    probe = roles[0].probe.make(Vocabulary(model), 99, 0)
    assert {name: round(right, 3) for name, right in probe.baselines.items()} == {"amod down": 0.6, "det down": 0.6}
    arcs_of = [batch.arcs["amod down"] for batch in probe.batches]
    assert sum(int(each.by_offset.sum()) for each in arcs_of) == 12
    assert sum(len(each.item) for each in arcs_of) == 20


def test_sentences_longer_than_the_context_are_left_out(tmp_path: Path) -> None:
    long = conllu(*((str(at), "old", at + 1, "amod") for at in range(1, 120)), ("120", "table", 0, "root"))
    short = conllu(("1", "old", 2, "amod"), ("2", "table", 0, "root"))
    path = tmp_path / "a.conllu"
    with torch.no_grad():
        model = opened(noun_to_modifier().eval())
    path.write_text(long * 20 + short * 3)
    assert treebank_roles(model, path)[0].probe.make(Vocabulary(model), 99, 0).n_inputs == 3
    path.write_text(long * 20)
    with pytest.raises(UntestableError, match="none of the 20 sentences fits into its context of 96 tokens"):
        treebank_roles(model, path)[0].probe.make(Vocabulary(model), 99, 0)
    report = run_battery(model, RoleOptions(roles=(), own=treebank_roles(model, path), controls=0, ablate=0))
    assert "none of the 20 sentences fits" in report.trial("syntax: amod down").why_not


def test_a_part_of_a_batch_asks_for_the_same_words(tmp_path: Path) -> None:
    """Batches that are too large are cut; an arc's input is then counted from the first of its part."""
    sentences = read_conllu(treebank(tmp_path / "a.conllu", 40))
    with torch.no_grad():
        vocabulary = Vocabulary(opened(noun_to_modifier().eval()))
    probe = syntax_roles(sentences, causal=True)[0].probe.make(vocabulary, 99, 0)
    batch = max(probe.batches, key=len)
    asked = []
    for start in range(0, len(batch), 3):
        part = batch.part(start, start + 3)
        arcs_there = part.arcs["amod down"]
        assert int(arcs_there.item.max()) < len(part)
        for item, row, wanted in zip(arcs_there.item, arcs_there.row, arcs_there.wanted, strict=True):
            asked.append((part.ids[item].tolist(), int(row), int(wanted)))
            assert torch.equal(arcs_there.words[item], batch.arcs["amod down"].words[start + int(item)])
    whole = batch.arcs["amod down"]
    every = zip(whole.item, whole.row, whole.wanted, strict=True)
    assert asked == [(batch.ids[item].tolist(), int(row), int(wanted)) for item, row, wanted in every]
