"""Planted faults change one place each, and are the same for the same seed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from bench.covering_tests import CoveringTests
from bench.mutants import PACKAGES, ROOT, faults, mirror, mutated, places, statement_lines

SOURCE = """
def f(a: int = 1, b=2):
    if a < b and a:
        g(a)
    raise ValueError(f"no {a + b}")
"""
CHANGED = {"a <= b", "a < b or a", "a: int=2", "b=3", "if not (a < b and a):", "pass", "a - b"}


def test_every_place_gives_one_other_program() -> None:
    count = len(list(places(ast.parse(SOURCE))))
    made = [mutated(SOURCE, at)[0] for at in range(count)]
    plain = ast.unparse(ast.parse(SOURCE))
    assert len({*made, plain}) == count + 1
    assert {part for part in CHANGED if any(part in text for text in made)} == CHANGED
    for text in made:
        different = sum(one != other for one, other in zip(text.splitlines(), plain.splitlines(), strict=True))
        assert different == 1


@pytest.mark.slow
def test_faults_are_drawn_by_seed() -> None:
    for package in PACKAGES:
        drawn = faults(package, 0)
        assert drawn == faults(package, 0) != faults(package, 1)
        assert sorted(drawn) == sorted(faults(package, 1))


def test_the_mirror_of_a_module_is_the_test_file_of_its_name() -> None:
    assert mirror(ROOT / "src/headscope/attention/masks.py") == ["tests/attention/test_masks.py"]
    assert mirror(ROOT / "src/headscope/attention/__init__.py") == []


def test_the_lines_of_a_statement_end_before_its_body() -> None:
    source = "if (\n    a\n):\n    b = [\n        1,\n    ]\n"
    assert [statement_lines(source, line) for line in (1, 2, 5)] == [range(1, 4), range(1, 4), range(4, 7)]


def test_a_fault_in_a_decorator_belongs_to_what_is_decorated() -> None:
    source = "x = 1\n@dataclass(frozen=True)\n@final\nclass A:\n    y: int = 0\n"
    assert [statement_lines(source, line) for line in (1, 2, 4, 5)] == [
        range(1, 2), range(2, 5), range(2, 5), range(5, 6),
    ]  # fmt: skip


def test_the_tests_of_a_line_are_those_that_ran_it_the_quickest_first(tmp_path: Path) -> None:
    coverage = pytest.importorskip("coverage", reason="coverage is not installed: pip install headscope[dev]")
    source, data = "/copy/src/headscope/scan/run.py", coverage.CoverageData(str(tmp_path / "lines"))
    for name, lines in (("slow|run", [4]), ("quick|run", [4, 9]), ("made|setup", [7])):
        data.set_context(f"tests/test_a.py::{name}")
        data.add_lines({source: lines})
    data.write()
    cases = [("quick", 0.1), ("slow", 2.0), ("made", 1.0)]
    rows = "".join(f'<testcase classname="tests.test_a" name="{name}" time="{time}"/>' for name, time in cases)
    (tmp_path / "durations.xml").write_text(f"<testsuite>{rows}</testsuite>", encoding="utf-8")
    covering, run = CoveringTests(tmp_path), ROOT / "src/headscope/scan/run.py"
    assert covering.tests(run, range(4, 5)) == ["tests/test_a.py::quick", "tests/test_a.py::slow"]
    assert covering.tests(run, range(7, 8)) == []
    for lines in (range(7, 8), range(1, 2)):  # what a fixture ran; what no test ran
        assert covering.files(run, lines) == ["tests/test_a.py"]
