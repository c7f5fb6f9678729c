"""Show a census as one HTML file without network access: a map of the heads per question, and examples."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headscope.scan.census import Census, CensusRow
from headscope.scan.tally.reduction import TRAITS

DESCRIPTIONS = {
    "previous": "attention on the token before",
    "itself": "attention on the token itself",
    "first": "attention on the first token",
    "duplicate": "attention on earlier copies of this token",
    "induction": "attention on what followed earlier copies",
    "entropy": "entropy of the attention pattern, in nats",
    "distance": "mean distance to the attended tokens",
    "spread": "standard deviation of that distance",
    "strongest": "weight of the strongest key",
}
TOP_HEADS = 3
"""The number of heads per question whose examples are shown."""


def census_page(census: Census) -> str:
    """The HTML page of a census, from a template."""
    template = files("headscope.scan").joinpath("census_page.html").read_text(encoding="utf-8")
    result = census.recipe.data.get("result", {})
    summary = (
        f"{census.layout.n_heads:,} heads in {len(census.layout.sites)} sites · {result.get('tokens', 0):,} tokens in "
        f"{result.get('documents', 0):,} documents · rows of {census.layout.context:,} tokens"
    )
    problems = "".join(f"<p class=problem>{html.escape(problem)}</p>" for problem in census.problems[:5])
    parts = {
        "title": html.escape(census.model_name),
        "summary": html.escape(summary),
        "problems": problems,
        "unit": html.escape(str(result.get("interval_over", "document"))),
        "examples": "".join(_examples(census, question) for question in census.questions),
        "recipe": html.escape(census.recipe.to_json()),
        "data": json.dumps(_data(census), separators=(",", ":")).replace("<", "\\u003c"),
    }
    # in one pass: a token of the corpus may itself be {{data}}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _data(census: Census) -> dict[str, Any]:
    """Means, intervals and nulls per question, in the order of the heads, to four digits."""
    by_head = {(str(row.head), row.question): row for row in census.rows}
    maps = []
    for question in (*census.questions, *TRAITS):
        rows = [by_head.get((str(head), question)) for head in census.heads()]
        numbers = [None if row is None else _numbers(row) for row in rows]
        maps.append(
            {
                "name": question,
                "description": DESCRIPTIONS.get(question, ""),
                "trait": question in TRAITS,
                "rows": numbers,
            }
        )
    return {"sites": [list(site) for site in census.layout.sites], "maps": maps}


def _numbers(row: CensusRow) -> list[float | None]:
    return [_short(value) for value in (row.mean, row.low, row.high, row.null_mean)]


def _short(value: float | None) -> float | None:
    return None if value is None or value != value else float(f"{value:.4g}")


def _examples(census: Census, question: str) -> str:
    table, top = census.examples(), census.top(question, TOP_HEADS)
    heads = pa.array([str(best.head) for best in top], pa.string())
    asked = pc.and_(pc.equal(table["question"], question), pc.is_in(table["head"], heads))
    rows = table.filter(asked).to_pylist()
    shown = []
    for best in top:
        mine = [row for row in rows if row["head"] == str(best.head)]
        lines = "".join(f"<li>{_line(row)}</li>" for row in mine)
        shown.append(f"<h4>{best.head} <span>mean {best.mean:.3f}</span></h4><ol>{lines}</ol>")
    return f"<section><h3>{html.escape(question)}</h3>{''.join(shown)}</section>"


def _line(row: dict[str, Any]) -> str:
    """The tokens around an example: the query marked, and its strongest key where it is in the window."""
    target = row["at"] + row["key"] - row["position"]
    parts = []
    for index, token in enumerate(row["tokens"]):
        text = html.escape(token).replace("\n", "⏎")
        tag = "b" if index == row["at"] else "u" if index == target else None
        parts.append(f"<{tag}>{text}</{tag}>" if tag else text)
    return f"<q>{''.join(parts)}</q> <span>{row['score']:.2f}, document {row['document']}</span>"
