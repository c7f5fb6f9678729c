"""Plant faults in a copy of the source, one at a time, and say which of them the tests do not notice.

    python -m bench.covering_tests runs/covering
    python -m bench.mutants --package app/server --faults 20 --seed 0 --out bench/results/mutants.json

A fault is one changed operator, constant or condition, or one statement left out, drawn by seed from a whole package;
a place keeps its turn while other places are edited. Tests run until the first that fails: those that run the faulty
line by the record of ``bench.covering_tests`` and those of the module's mirror, then whole files of such tests. A test
that failed has to pass without the fault. With ``--out`` each fault is written down when it is decided, and faults are
drawn until the file has as many of the package and seed; survivors are tried again with ``--again``. "equivalent" with
a reason is written there by hand. Linux only: a process that has imported what most tests need forks for every fault.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.covering_tests import PACKAGES, ROOT, SKIPPED, CoveringTests

SECONDS, SECONDS_OF_TEST = 300, 80  # a fault that makes some tests, or one, take this long was noticed
FIRST_TESTS, MOST_TESTS = 25, 150  # tests in one run of pytest: the quickest alone first
NO_TESTS, NOT_THERE = 5, 4  # pytest's statuses
IMPORTED_ONCE = (
    "torch", "transformers.modeling_utils", "transformers.models.llama.modeling_llama",
    "transformers.models.gpt2.modeling_gpt2", "fastapi.testclient", "uvicorn", "playwright.sync_api", "pyarrow.parquet",
    "tokenizers", "hypothesis", "beartype", "jaxtyping",
)  # fmt: skip
"""What most tests need and no fault is in, imported so that every fork has it."""
COPIED = (
    "src", "tests", "bench", "docs", "web/src", "pyproject.toml", "constraints.txt", "README.md", "CHANGELOG.md",
    "CONTRIBUTING.md", "Makefile", "mkdocs.yml",
)  # fmt: skip
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that can be changed, each with the field in which it is."""
    annotations = {id(inner) for node in ast.walk(tree) for inner in _annotated(node)}
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, "ops"
        elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in SWAPS and not _texts(node):
            yield node, "op"
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            yield node, "test"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            yield node, "value"
        elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield node, "statement"


def change(node: ast.AST, field: str) -> None:
    if field == "ops":
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[attr-defined]
    elif field == "op":
        node.op = SWAPS[type(node.op)]()  # type: ignore[attr-defined]
    elif field == "test":
        node.test = ast.UnaryOp(ast.Not(), node.test)  # type: ignore[attr-defined]
    elif field == "value":
        value = node.value  # type: ignore[attr-defined]
        node.value = not value if isinstance(value, bool) else value + 1  # type: ignore[attr-defined]
    else:
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        vars(node).clear()
        node.__class__ = ast.Pass
        vars(node).update(lineno=line, col_offset=column)


def _annotated(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("annotation", "returns"):
        if isinstance(hint := getattr(node, field, None), ast.AST):
            yield from ast.walk(hint)


def _texts(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.JoinedStr | ast.Constant) and not _number(part) for part in ast.iter_child_nodes(node)
    )


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


@dataclass(frozen=True)
class Fault:
    """One changed place of a file."""

    file: Path
    changed: str
    lines: range
    row: dict[str, Any]


def faults(package: str, seed: int) -> list[tuple[Path, int]]:
    """Files and places in them, of the whole package, in an order drawn by seed."""
    turns = {}
    for file in sorted((ROOT / "src/headscope" / package).rglob("*.py")):
        if any(part in SKIPPED for part in file.parts):
            continue
        seen = Counter[str]()
        for at, (node, field) in enumerate(places(ast.parse(file.read_text(encoding="utf-8")))):
            said = f"{seed} {file.relative_to(ROOT)} {field} {ast.unparse(node)}"
            turns[file, at] = hashlib.sha256(f"{said} {seen[said]}".encode()).hexdigest()
            seen[said] += 1
    return sorted(turns, key=lambda place: turns[place])


def mutated(source: str, at: int) -> tuple[str, int, str, str]:
    """The file with the fault, its line, and the line's code before and after."""
    tree = ast.parse(source)
    node, field = list(places(tree))[at]
    line, before = node.lineno, ast.unparse(copy.deepcopy(node)).splitlines()[0]  # type: ignore[attr-defined]
    change(node, field)
    ast.fix_missing_locations(tree)
    return ast.unparse(tree), line, before, ast.unparse(node).splitlines()[0]


def statement_lines(source: str, line: int) -> range:
    """Lines of the simple statement that has a line, or of the head of a compound one, with its decorators."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    inner = max((each for each in statements if _start(each) <= line <= _end(each)), key=lambda each: each.lineno)
    body = getattr(inner, "body", None)
    return range(_start(inner), max(inner.lineno + 1, body[0].lineno) if body else _end(inner) + 1)


def _start(statement: ast.stmt) -> int:
    return min([statement.lineno, *(decorator.lineno for decorator in getattr(statement, "decorator_list", ()))])


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def fault_at(package: str, file: Path, at: int) -> Fault:
    source = file.read_text(encoding="utf-8")
    changed, line, before, after = mutated(source, at)
    where = f"{file.relative_to(ROOT / 'src/headscope')}:{line}"
    row = {"package": package, "where": where, "place": at, "before": before, "after": after}
    return Fault(file, changed, statement_lines(source, line), row)


def mirror(file: Path) -> list[str]:
    """The test files that have the module's name, which may be newer than the record of what tests run."""
    package = file.relative_to(ROOT / "src/headscope").parts[0]
    return [str(test.relative_to(ROOT)) for test in sorted((ROOT / "tests" / package).rglob(f"test_{file.stem}.py"))]


@dataclass(frozen=True)
class Failures:
    """A pytest plugin that writes down which test failed, or which file could not be collected."""

    file: Path

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid, encoding="utf-8")


def run_tests(folder: Path, tests: list[str], without: set[str]) -> int | None:
    """The status of the tests in a fork of this process; None after SECONDS. A failed test's name is in ``failed``."""
    (folder / "failed").unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            os._exit(_in_fork(folder, tests, without))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:  # nothing of this process's own ending
            os._exit(1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _in_fork(folder: Path, tests: list[str], without: set[str]) -> int:
    out = os.open(folder / "tests.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0), os.dup2(out, 1), os.dup2(out, 2)
    os.setsid()
    os.chdir(folder)
    sys.path[:0] = [str(folder / "src"), str(folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    import pytest

    imported_before = "ignore::pytest.PytestAssertRewriteWarning"
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", imported_before, f"--timeout={SECONDS_OF_TEST}"]
    options += [option for name in without for option in ("--deselect" if "::" in name else "--ignore", name)]
    return int(pytest.main([*options, *tests], plugins=[Failures(folder / "failed")]))


@contextmanager
def planted(inside: Path, changed: str) -> Iterator[None]:
    source = inside.read_text(encoding="utf-8")
    inside.write_text(changed, encoding="utf-8")
    try:
        yield
    finally:
        inside.write_text(source, encoding="utf-8")


class Tester:
    """Runs tests on faults in a copy of the source; tests that fail without a fault are left out from then on."""

    def __init__(self, folder: Path, covering: CoveringTests) -> None:
        self.folder, self.covering = folder, covering
        self.sound, self.unsound = set[str](), set[str]()

    def try_fault(self, fault: Fault) -> dict[str, Any]:
        """What the tests make of it: noticed, and by which of them; or survived."""
        ran = 0
        for tests in self._batches(fault):
            ran += len(tests)
            by = self._failed(fault, tests)
            if by:
                return fault.row | {"outcome": "noticed", "by": by}
        return fault.row | {"outcome": "survived", "tests": ran}

    def _batches(self, fault: Fault) -> Iterator[list[str]]:
        """Tests that run the faulty lines, those of the module's mirror, the rest by duration, then whole files."""
        tests, seconds = self.covering.tests(fault.file, fault.lines), self.covering.seconds
        near = mirror(fault.file)
        if tests[:FIRST_TESTS] or near:
            yield [*tests[:FIRST_TESTS], *near]
        rest = [name for name in tests[FIRST_TESTS:] if name.partition("::")[0] not in near]
        for start in range(0, len(rest), MOST_TESTS):
            yield rest[start : start + MOST_TESTS]
        taken = 0.0
        for file in self.covering.files(fault.file, fault.lines):
            own = sum(time for name, time in seconds.items() if name.startswith(f"{file}::"))
            if file not in near and taken + own <= SECONDS:
                taken += own
                yield [file]

    def _failed(self, fault: Fault, tests: list[str]) -> str | None:
        """The first test that fails with the fault and passes without."""
        while True:
            with planted(self.folder / fault.file.relative_to(ROOT), fault.changed):
                status = run_tests(self.folder, tests, self.unsound)
            if status in (0, NO_TESTS):
                return None
            if status == NOT_THERE:
                if run_tests(self.folder, tests[:1], self.unsound) != NOT_THERE:
                    return tests[0]  # with the fault its file cannot even be imported
                raise SystemExit(f"the record names tests that are not there; make it anew: {', '.join(tests[:3])} …")
            failed = self.folder / "failed"
            by = failed.read_text(encoding="utf-8") if failed.exists() else ""
            if by in self.sound or run_tests(self.folder, [by] if by else tests, self.unsound) in (0, NO_TESTS):
                self.sound.add(by)
                return by or "no end"
            if not by or by in self.unsound:
                return None
            self.unsound.add(by)


class Results:
    """Rows of faults that were tried, kept in a file after each."""

    def __init__(self, out: Path | None, again: bool) -> None:
        self.out, self.again = out, again
        kept = json.loads(out.read_text(encoding="utf-8"))["rows"] if out is not None and out.exists() else []
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {_key(row): row for row in kept}

    def enough(self, package: str, seed: int, count: int) -> bool:
        """Whether so many faults have been tried; survivors that are tried again may be any."""
        tried = sum(row["package"] == package and row["seed"] == seed for row in self.rows.values())
        return tried >= count and not self.again

    def wants(self, fault: Fault) -> bool:
        """Whether to try a fault: a new one; or, when asked to, one that survived."""
        row = self.rows.get(_key(fault.row))
        return row is not None and row["outcome"] == "survived" if self.again else row is None

    def add(self, row: dict[str, Any]) -> None:
        self.rows[_key(row)] = row
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        if self.out is not None:
            rows = sorted(self.rows.values(), key=lambda each: (each["package"], each["where"], each["place"]))
            counts = Counter(f"{each['package']}, seed {each['seed']}: {each['outcome']}" for each in rows)
            about = {"schema_version": 1, "benchmark": "mutants", "counts": dict(sorted(counts.items()))}
            written = json.dumps({**about, "rows": rows}, indent=1, ensure_ascii=False)
            self.out.write_text(written + "\n", encoding="utf-8")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["where"], row["place"], row["before"], row["after"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", action="append", choices=PACKAGES, help="all four unless named")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep each result here; what is there is not tried again")
    parser.add_argument("--covering", type=Path, default=ROOT / "runs/covering", help="made by bench.covering_tests")
    parser.add_argument("--again", action="store_true", help="try those again that survived")
    asked = parser.parse_args()
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    results = Results(asked.out, asked.again)
    covering = CoveringTests(asked.covering)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in COPIED:
            whole = ROOT / name
            shutil.copytree(whole, folder / name) if whole.is_dir() else shutil.copy(whole, folder)
        tester = Tester(folder, covering)
        for package in asked.package or PACKAGES:
            for file, at in faults(package, asked.seed):
                if results.enough(package, asked.seed, asked.faults):
                    break
                fault = fault_at(package, file, at)
                if results.wants(fault):
                    results.add(tester.try_fault(fault) | {"seed": asked.seed})


if __name__ == "__main__":
    main()
