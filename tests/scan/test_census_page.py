"""The page shows the numbers of the census, and text of the corpus as text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import torch

from headscope.heads.questions.label_rules import token_class
from headscope.scan.census import DESCRIPTIONS, TOP_HEADS, Census, census_page
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import Recipe
from headscope.scan.tally.examples import BEFORE
from headscope.scan.tally.reduction import TRAITS
from headscope.scan.tally.tally import Tally, TallyLayout
from tests.scan.tiny import open_tiny, texts

NASTY = "</script><script>alert(1)</script> {{data}} {{recipe}} <b>&amp;\n" * 3


@pytest.fixture(scope="module")
def census() -> Census:
    options = ScanOptions(threads=1, context=48, replicates=10, examples=2, rules=(token_class("<odd>&", "[<&{]"),))
    made = scan(open_tiny(), [*texts(8), NASTY], options=options)
    return Census(made.tally, with_problems(made, ["<i>broken</i>.txt, line 3: bad"]), open_tiny().processor.tokens_of)


def with_problems(census: Census, problems: list[str]) -> Recipe:
    return Recipe({**census.recipe.data, "result": {**census.recipe.data["result"], "problems": problems}})


class Reader(HTMLParser):
    """The tags of a page and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def data_of(text: str) -> dict[str, Any]:
    """The data of the page's script."""
    (found,) = re.findall(r'\{"sites":.*\}(?=[;<\s])', text)
    data: dict[str, Any] = json.loads(found)
    return data


def test_the_map_of_every_question_holds_the_rows_of_the_census(census: Census) -> None:
    data = data_of(census_page(census))
    assert data["sites"] == [["0", 2], ["1", 2]]
    assert [each["name"] for each in data["maps"]] == [*census.questions, *TRAITS]
    for each in data["maps"]:
        assert each["trait"] == (each["name"] in TRAITS)
        assert each["description"] == DESCRIPTIONS.get(each["name"], "")
        for head, numbers in zip(census.heads(), each["rows"], strict=True):
            row = census.row(head, each["name"])
            for shown, value in zip(numbers, (row.mean, row.low, row.high, row.null_mean), strict=True):
                assert shown == (None if value is None else pytest.approx(value, rel=1e-3))


def test_no_text_of_the_corpus_becomes_a_tag_or_a_placeholder(census: Census) -> None:
    plain = read(census_page(census))
    quiet = read(
        census_page(
            Census(census.tally, with_problems(census, []), lambda ids: open_tiny().processor.tokens_of(ids * 0 + 97))
        )
    )
    assert plain.tags.count("script") == quiet.tags.count("script")
    assert plain.tags.count("i") == quiet.tags.count("i")
    assert "<i>broken</i>.txt, line 3: bad" in plain.text
    assert "<odd>&" in plain.text


def test_the_top_heads_of_each_question_are_shown_with_their_examples(census: Census) -> None:
    sections = re.findall(r"<section><h3>(.*?)</h3>(.*?)</section>", census_page(census), flags=re.DOTALL)
    assert len(sections) == len(census.questions)
    table = census.examples().to_pylist()
    for question, (_, body) in zip(census.questions, sections, strict=True):
        heads = re.findall(r"<h4>(\S+) <span>mean ([\d.]+)</span></h4>", body)
        best = census.top(question, TOP_HEADS)
        assert heads == [(str(row.head), f"{row.mean:.3f}") for row in best]
        expected = [row for row in table if row["question"] == question and row["head"] in {name for name, _ in heads}]
        lines = re.findall(r"<li>(.*?)</li>", body, flags=re.DOTALL)
        assert len(lines) == len(expected)


def test_examples_are_listed_with_the_tokens_around_them() -> None:
    tally = Tally.zero(
        TallyLayout(sites=(("0", 2), ("1", 1)), questions=("first", "previous"), replicates=2, examples=2)
    )
    places = {(0, 1, 0): (0, 3, 1, "abcd", 2), (0, 1, 1): (7, 0, 0, "xy", 0), (1, 2, 0): (0, 1, 1, "éz", 1)}
    for slot, (document, position, key, text, at) in places.items():
        parts = (tally.examples.score, tally.examples.document, tally.examples.position, tally.examples.key)
        for part, value in zip(parts, (0.5, document, position, key), strict=True):
            part[slot] = value
        tally.examples.tokens[slot][BEFORE - at : BEFORE - at + len(text)] = torch.tensor([ord(each) for each in text])
    made = Census(tally, Recipe({}), open_tiny().processor.tokens_of)
    names = ("head", "question", "rank", "score", "document", "position", "key", "at", "tokens")
    assert [tuple(row[name] for name in names) for row in made.examples().to_pylist()] == [
        ("0.1", "first", 0, 0.5, 0, 3, 1, 2, [*"abcd"]),
        ("0.1", "first", 1, 0.5, 7, 0, 0, 0, [*"xy"]),
        ("1.0", "previous", 0, 0.5, 0, 1, 1, 1, [*"éz"]),
    ]
