"""The README's table, made from bench/results/peers-cpu.json; and how lines of user code are counted."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- peers: made by `make peers` -->", "<!-- end of peers -->"
NAMES = {
    "headscope": "headscope", "transformers": "transformers (eager)", "transformer-lens": "TransformerLens",
    "nnsight": "nnsight", "bertviz": "BertViz", "circuitsvis": "CircuitsVis",
}  # fmt: skip
LABELS = {
    "open": "open the model, imports included",
    "statistics": "all heads' statistics, {tokens:,} tokens",
    "ablation": "one head off, {tokens} tokens",
    "parts": "each head's output through W_O, {tokens} tokens",
    "picture_of_a_head": "a head of {tokens} tokens as a picture",
    "picture_of_all": "all 144 heads of {tokens} tokens in one file",
}
FAILURES = {"more than one file": "refused: too large for one file", "out of memory": "out of memory"}
NOTES = {"open": " (ours ends with a pass that checks the model against its own attention and so reads every weight)"}
CLEAR = 0.9  # a peer is better where it needs less than this share of ours

Row = dict[str, Any]


def write(readme: Path, results: Path) -> None:
    """Put the table between its two marks."""
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    readme.write_text(f"{before}{BEGIN}\n{render(results)}{END}{after}", encoding="utf-8")


def render(results: Path) -> str:
    """Two tables and what they come from."""
    content = json.loads(results.read_text(encoding="utf-8"))
    rows = sorted(content["rows"], key=lambda row: (list(LABELS).index(row["task"]), row["tokens"]))
    drawn = [row for row in rows if row["task"].startswith("picture")]
    asked = [row for row in rows if not row["task"].startswith("picture")]
    made = content["machine"]
    return (
        f"{_table(asked)}\n{_table(drawn)}\n{_better(rows)}\n\n"
        f"GPT-2 small's shape, random weights, float32; {made['device']}, one thread, processor time; "
        f"memory beyond the opened model's (for *open*: the whole process's). {_versions(rows)}. {_errors(rows)} "
        f"`make peers` runs it again; {content['date']}.\n"
    )


def _table(rows: list[Row]) -> str:
    """A line a task, a column a tool; the fastest is bold."""
    tools = list(dict.fromkeys(row["tool"] for row in rows))
    tools.sort(key=list(NAMES).index)
    head = "| | " + " | ".join(NAMES[tool] for tool in tools) + " |\n|---" + "|---" * len(tools) + "|\n"
    lines = []
    for task, tokens in dict.fromkeys((row["task"], row["tokens"]) for row in rows):
        cells = {row["tool"]: row for row in rows if (row["task"], row["tokens"]) == (task, tokens)}
        best = min((row["seconds"] for row in cells.values() if "seconds" in row), default=0.0)
        label = LABELS[task].format(tokens=tokens)
        lines.append(f"| {label} | " + " | ".join(_cell(cells.get(tool), best) for tool in tools) + " |\n")
    return head + "".join(lines)


def _cell(row: Row | None, best: float) -> str:
    if row is None:
        return "–"
    if "failed" in row:
        return next((short for words, short in FAILURES.items() if words in row["failed"]), "failed")
    seconds = _seconds(row["seconds"])
    told = [f"**{seconds}**" if row["seconds"] == best else seconds]
    told.append(f"{_bytes(row['file_bytes'])} file" if "file_bytes" in row else _bytes(row["peak_bytes"]))
    return " · ".join([*told, f"{row['lines']} lines"])


def _better(rows: list[Row]) -> str:
    """Where a peer needs clearly less time or memory than we do, a line a task."""
    ours = {(row["task"], row["tokens"]): row for row in rows if row["tool"] == "headscope"}
    found: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        key = row["task"], row["tokens"]
        if row["tool"] != "headscope" and "failed" not in row and (less := _less(row, ours[key])):
            found.setdefault(key, []).append(f"{NAMES[row['tool']]} {less}")
    if not found:
        return "No peer needs less than we do in any row."
    lines = [
        f"- {LABELS[task].format(tokens=tokens)}: {'; '.join(who)}{NOTES.get(task, '')}"
        for (task, tokens), who in found.items()
    ]
    return "\n".join(["Where a peer is better:\n", *lines])


def _less(row: Row, ours: Row) -> str:
    """What of ours a peer's row needs less of, and its share."""
    if "failed" in ours:
        return "does it, headscope refuses"
    size, word = ("file_bytes", "file size") if "file_bytes" in row else ("peak_bytes", "memory")
    shares = {what: row[name] / max(ours[name], 1e-9) for name, what in (("seconds", "time"), (size, word))}
    return ", ".join(f"{share:.2f} of our {what}" for what, share in shares.items() if share < CLEAR)


def _versions(rows: list[Row]) -> str:
    known = {row["tool"]: row["version"] for row in rows if "version" in row}
    return ", ".join(f"{NAMES[tool]} {known[tool]}" for tool in NAMES if tool in known)


def _errors(rows: list[Row]) -> str:
    worst = {
        tool: max((row["error"] for row in rows if row["tool"] == tool and "error" in row), default=None)
        for tool in NAMES
    }
    told = ", ".join(f"{NAMES[tool]} {error:.0e}" for tool, error in worst.items() if error is not None)
    return f"Largest error against float64, relative: {told}."


def lines(script: Path, task: str) -> int:
    """Lines of code of a task: its function's body and the functions of the file that it calls, without blanks."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    wanted, counted = ["open_model" if task == "open" else task], dict[str, int]()
    if wanted[0] not in functions:
        return 0
    source = script.read_text(encoding="utf-8").splitlines()
    while wanted:
        name = wanted.pop()
        node = functions[name]
        body = source[node.body[0].lineno - 1 : node.end_lineno]
        counted[name] = sum(bool(line.strip()) and not line.strip().startswith("#") for line in body)
        called = {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}
        wanted += [other for other in called & functions.keys() if other not in counted]
    return sum(counted.values())


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def _bytes(value: float) -> str:
    return (
        f"{value / 1e6:.1f} MB" if value < 1e7 else f"{value / 1e6:.0f} MB" if value < 1e9 else f"{value / 1e9:.1f} GB"
    )
