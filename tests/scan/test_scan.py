"""A census equals a dense computation over every document alone, however documents are packed."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule, token_class
from headscope.models.native import NativeModel
from headscope.models.protocol import Token
from headscope.scan.census import Census
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scope import Scope
from tests.scan.tiny import open_tiny, texts

OPTIONS: dict[str, Any] = {"threads": 1, "replicates": 20, "examples": 3}


def patterns(model: NativeModel, ids: list[int]) -> dict[str, Tensor]:
    """Every head's attention pattern over one text, from q and k, in float64."""
    found: dict[str, Tensor] = {}

    def see(site: str, call: Call) -> Tensor:
        k = call.k.double().repeat_interleave(call.q.shape[1] // call.k.shape[1], 1)
        scores = (call.q.double() @ k.mT) / math.sqrt(call.q.shape[-1])
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        found[site] = scores.masked_fill(hidden, -math.inf).softmax(-1)[0]
        return plain(call)

    with torch.no_grad():
        model.run({"input_ids": torch.tensor([ids])}, see)
    return found


def matches(question: str, ids: list[int], i: int, j: int) -> bool:
    """The questions by their definitions."""
    if question in ("duplicate", "induction") and i == j:
        return False
    return {
        "previous": j == i - 1,
        "itself": j == i,
        "first": j == 0,
        "duplicate": ids[j] == ids[i],
        "induction": j > 0 and ids[j - 1] == ids[i],
        "spaces": ids[j] == 32,
    }[question]


def by_hand(
    model: NativeModel, documents: Sequence[str], document_tokens: int, before: list[int]
) -> dict[str, list[tuple[float, ...]]]:
    """For every head and question: the masses of all queries that have an answer, document by document."""
    masses: dict[str, list[tuple[float, ...]]] = {}
    for document in documents:
        whole = model.processor.token_ids(document)
        for start in range(0, len(whole), document_tokens):
            ids = before + whole[start : start + document_tokens]
            if len(ids) - len(before) < 2:
                continue
            for site, weights in patterns(model, ids).items():
                for question in ("previous", "itself", "first", "duplicate", "induction", "spaces"):
                    for i in range(max(1, len(before)), len(ids)):
                        keys = [j for j in range(i + 1) if matches(question, ids, i, j)]
                        if keys:
                            key = f"{site} {question}"
                            masses.setdefault(key, []).append(tuple(weights[:, i, keys].sum(-1).tolist()))
    return masses


@pytest.mark.parametrize(
    ("how", "context"),
    [({}, 40), ({"start": True}, 40), ({"absolute": True}, 40), ({}, 256)],
    ids=["rotary", "start token", "absolute positions", "long rows, one call per piece"],
)
def test_means_counts_and_extremes_equal_the_dense_ones(how: dict[str, bool], context: int) -> None:
    model = open_tiny(context=context, **how)
    documents = texts(8, seed=3) if context == 40 else [" ".join(texts(2, seed=n)) for n in range(3)]
    spaces = token_class("spaces", "^ $")
    spaces = LabelRule("spaces", spaces.query, spaces.key)
    options = ScanOptions(batch=3, shard_tokens=200, rules=(spaces,), context=context, **OPTIONS)
    census = scan(model, documents, options=options)
    before = [256] if how.get("start") else []
    for key, masses in by_hand(model, documents, context - len(before), before).items():
        site, question = key.split(" ")
        for head, values in enumerate(zip(*masses, strict=True)):
            row = census.row(f"{site}.{head}", question)
            assert row.count == len(values)
            assert row.mean == pytest.approx(sum(values) / len(values), abs=2e-6)
            assert row.maximum == pytest.approx(max(values), abs=2e-5)
            assert row.minimum == pytest.approx(min(values), abs=2e-5)
    assert ("one piece a row" in str(census.recipe.data["packing"])) == how.get("absolute", False)


def test_entropy_and_distance_equal_the_dense_ones() -> None:
    model, documents = open_tiny(context=40), texts(6, seed=5)
    census = scan(model, documents, options=ScanOptions(context=40, **OPTIONS))
    entropy: list[float] = []
    distance: list[float] = []
    for document in documents:
        whole = model.processor.token_ids(document)
        for start in range(0, len(whole), 40):
            ids = whole[start : start + 40]
            weights = patterns(model, ids)["1"][1] if len(ids) > 1 else torch.ones(1, 1)
            reach = torch.arange(len(ids))[:, None] - torch.arange(len(ids))
            entropy += (-(weights * weights.clamp(min=1e-300).log()).sum(-1))[1:].tolist()
            distance += (weights * reach).sum(-1)[1:].tolist()
    for name, values in (("entropy", entropy), ("distance", distance)):
        row = census.row("1.1", name)
        assert row.count == len(values)
        assert row.mean == pytest.approx(sum(values) / len(values), rel=1e-4)
        assert row.variance == pytest.approx(torch.tensor(values).var(correction=0).item(), rel=1e-3)
        assert row.histogram is not None
        assert sum(row.histogram) == len(values)


def test_one_document_has_no_interval_and_the_entropy_that_a_look_gives() -> None:
    model, text = open_tiny(), texts(1, seed=2)[0][:24]
    census, two = (scan(model, [text] * n, options=ScanOptions(**OPTIONS)) for n in (1, 2))
    entropy = Scope(model).look(text).matrix("entropy")
    for layer, head in ((0, 0), (1, 1)):
        row = census.row(f"{layer}.{head}", "entropy")
        assert (row.low, row.high) == (None, None)
        assert row.mean == pytest.approx(float(entropy[layer, head]), abs=1e-6)
        assert two.row(f"{layer}.{head}", "entropy").low is not None
    changes = compare(census, two).changes
    assert changes
    assert not any(change.clear or change.low == change.low for change in changes)


def test_the_null_is_the_mean_over_shuffles_of_the_visible_labels() -> None:
    model, text = open_tiny(), texts(1, seed=2)[0][:24]
    ids = model.processor.token_ids(text)
    census = scan(model, [text], options=ScanOptions(**OPTIONS))
    weights = patterns(model, ids)["0"][0]
    for question in ("previous", "first", "induction", "duplicate"):
        drawn: list[float] = []
        exact: list[float] = []
        for i in range(1, len(ids)):
            others = [j for j in range(i + 1) if j != i or question in ("previous", "first")]
            match = torch.tensor([matches(question, ids, i, j) for j in others])
            if match.any():
                orders = torch.rand(400, len(others)).argsort(1)
                masses = (weights[i, others] * match[orders]).sum(1)
                drawn.append(float(masses.mean()))
                exact.append(float(weights[i, others].sum() * match.double().mean()))
        null = census.row("0.0", question).null_mean
        assert null == pytest.approx(sum(exact) / len(exact), abs=1e-6)
        assert null == pytest.approx(sum(drawn) / len(drawn), abs=0.02)


def test_a_text_of_one_repeated_token_equals_its_null() -> None:
    """Every earlier key matches, so shuffling changes nothing."""
    row = scan(open_tiny(), ["aaaaaaaaaaaaaaaaaaaa"] * 20, options=ScanOptions(**OPTIONS)).row("0.0", "duplicate")
    assert row.null_mean == pytest.approx(row.mean, abs=1e-6)
    assert row.null_low == pytest.approx(row.low, abs=1e-6)


def test_examples_are_where_a_head_has_the_most_mass() -> None:
    model, documents = open_tiny(context=48), texts(12, seed=8)
    census = scan(model, documents, options=ScanOptions(context=48, **OPTIONS))
    rows = [row for row in census.examples().to_pylist() if row["question"] == "induction" and row["head"] == "1.0"]
    assert [row["rank"] for row in rows] == [0, 1, 2]
    assert rows[0]["score"] == pytest.approx(census.row("1.0", "induction").maximum)
    for row in rows:
        document = documents[row["document"]]
        assert row["tokens"][row["at"]] == document[row["position"]]
        assert "".join(row["tokens"]) in document


def test_a_census_is_loaded_from_its_folder(tmp_path: Path) -> None:
    census = scan(open_tiny(), texts(), out=tmp_path / "out", options=ScanOptions(**OPTIONS))
    loaded = Census.load(tmp_path / "out")
    assert loaded.to_arrow().equals(census.to_arrow())
    assert loaded.examples().equals(census.examples())
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "census.parquet", "examples.parquet", "recipe.json", "tally.safetensors",
    ]  # fmt: skip
    again = scan(open_tiny(), texts(), out=tmp_path / "out", options=ScanOptions(**OPTIONS))
    assert again.to_arrow().equals(census.to_arrow())


def vowels(tokens: Sequence[Token]) -> list[int]:
    return [int(token.text in "aeiou") for token in tokens]


def test_files_whose_names_are_not_utf8_are_scanned_and_named(tmp_path: Path) -> None:
    good, broken = (tmp_path / os.fsdecode(name) for name in (b"a-\xff.txt", b"b-\xfe.txt"))
    good.write_text("hello there, hello there")
    broken.write_bytes(b"hello again\n\nand\0binary")
    for _ in range(2):  # the second time from the folder
        census = scan(open_tiny(), [good, broken], out=tmp_path / "census", options=ScanOptions(context=16))
    assert [entry["file"] for entry in census.recipe.data["corpus"]] == [r"a-\xff.txt", r"b-\xfe.txt"]
    assert r"b-\xfe.txt" in census.problems[0]


def test_a_custom_question_is_measured_like_the_others() -> None:
    model = open_tiny()
    rules = (
        LabelRule("same kind", vowels, vowels),
        LabelRule("kind", vowels, lambda tokens: [1 - v for v in vowels(tokens)]),
    )
    census = scan(model, texts(5), options=ScanOptions(rules=rules, **OPTIONS))
    same, other = (census.row("0.1", name) for name in ("same kind", "kind"))
    assert same.count == census.row("0.1", "itself").count
    assert 0 < other.count < same.count, "the first queries may have no key of the other kind"
    assert same.mean * same.count + other.mean * other.count == pytest.approx(same.count, rel=1e-5), "a partition"


def test_documents_before_a_broken_line_are_scanned_and_the_line_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "a good document, the first"}\n{"text": "and one more"}\n{broken\n{"text": "never"}\n')
    census = scan(open_tiny(), path, options=ScanOptions(**OPTIONS))
    assert census.recipe.data["result"]["documents"] == 2
    assert f"{path}, line 3: not JSON" in census.problems[0]
    assert "line 3: not JSON" in repr(census)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the corpus is empty: it has no text of two tokens or more"),
        ("x", "the corpus is empty"),
        ("\x00junk", "corpus.txt, line 1: a NUL byte: this is binary data, not text"),
    ],
)
def test_a_corpus_without_text_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "corpus.txt").write_text(text)
    with pytest.raises(InputError, match=said):
        scan(open_tiny(), tmp_path / "corpus.txt", out=tmp_path / "out", options=ScanOptions(**OPTIONS))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"context": 65}, "context=65, but this model's context is 64 tokens; give 64 or less"),
        ({"workers": 2}, "several workers open the model themselves"),
        ({"batch": 0}, "batch=0: give at least 1"),
        ({"broken": "never"}, "broken='never' is not supported. Use 'stop' or 'skip'"),
        ({"rules": (token_class("previous", "x"),)}, "there is already a question named 'previous'"),
    ],
)
def test_wrong_options_are_reported(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        scan(open_tiny(), texts(), options=ScanOptions(**(OPTIONS | wrong)))


def test_reading_stops_after_max_tokens() -> None:
    census = scan(open_tiny(), texts(), options=ScanOptions(max_tokens=500, **OPTIONS))
    assert 500 <= census.recipe.data["result"]["tokens"] < 900
