"""The README's table is the one that the committed results make, and lines of user code are counted as it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    found = importlib.util.spec_from_file_location("peers_table", ROOT / "bench" / "peers_table.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_readme_s_table_is_made_from_the_results(table: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split(table.BEGIN)[1].split(table.END)[0]
    assert shown == "\n" + table.render(ROOT / "bench" / "results" / "peers-cpu.json")


def test_lines_are_those_of_the_task_and_of_what_it_calls(table: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "with_tool.py"
    script.write_text("def other():\n    return 2\n\n\ndef task():\n    # why\n    a = 1\n\n    return a + part()\n\n\n"
                      "def part():\n    return 3\n")  # fmt: skip
    assert table.lines(script, "task") == 3
    assert table.lines(script, "missing") == 0


def test_a_peer_that_is_better_is_named(table: ModuleType) -> None:
    same = {"task": "ablation", "tokens": 256, "lines": 3}
    ours = same | {"tool": "headscope", "seconds": 2.0, "peak_bytes": 100}
    theirs = same | {"tool": "nnsight", "seconds": 1.0, "peak_bytes": 100}
    assert table._better([ours, theirs]) == (
        "Where a peer is better:\n\n- one head off, 256 tokens: nnsight 0.50 of our time"
    )
    small = theirs | {"tool": "transformers", "peak_bytes": 20}
    assert "nnsight 0.50 of our time; transformers (eager) 0.50 of our time, 0.20 of our memory" in table._better(
        [ours, theirs, small]
    )
    assert table._better([ours, theirs | {"seconds": 2.0}]) == "No peer needs less than we do in any row."
    refused = same | {"tool": "headscope", "failed": "too large"}
    assert table._better([refused, theirs]).endswith("256 tokens: nnsight does it, headscope refuses")
