"""Plant faults in a copy of the source, one at a time, and say which of them the nearest tests do not notice.

    python bench/mutants.py --package app/server --faults 20 --seed 0

A fault is one changed operator, constant or condition, or one statement left out, drawn by seed from a whole package.
The tests are the file that mirrors the module and those that import it. Linux only: a process
that has imported torch and transformers forks for every fault.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("attention", "models", "scan", "app/server")
SKIPPED = ("embedded", "fused")  # weights; kernels that only a GPU runs
SECONDS = 300  # a fault that makes the tests wait this long was noticed
MOST_FILES = 4
NO_TESTS = 5  # pytest's status
COPIED = ("src", "tests", "bench", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
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


def faults(package: str, count: int, seed: int) -> list[tuple[Path, int]]:
    """Files and places in them, drawn from the whole package."""
    found = []
    for file in sorted((ROOT / "src/headscope" / package).rglob("*.py")):
        if not any(part in SKIPPED for part in file.parts):
            found += [(file, at) for at in range(sum(1 for _ in places(ast.parse(file.read_text(encoding="utf-8")))))]
    return random.Random(f"{package} {seed}").sample(found, min(count, len(found)))


def mutated(source: str, at: int) -> tuple[str, int, str, str]:
    """The file with the fault, its line, and the line's code before and after."""
    tree = ast.parse(source)
    node, field = list(places(tree))[at]
    line, before = node.lineno, ast.unparse(copy.deepcopy(node)).splitlines()[0]  # type: ignore[attr-defined]
    change(node, field)
    ast.fix_missing_locations(tree)
    return ast.unparse(tree), line, before, ast.unparse(node).splitlines()[0]


def nearest_tests(file: Path) -> list[str]:
    """Test files that mirror the module or import it, the ones that name it most first."""
    module = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    counts: dict[str, int] = {}
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        if "e2e" in test.parts or "gpu" in test.parts:
            continue
        text, subject = test.read_text(encoding="utf-8"), test.stem.removeprefix("test_")
        about = 20 * (subject == name) + 5 * (name in subject or subject in name)
        count = text.count(module) + text.count(f"from {package} import") + about
        if count:
            counts[str(test.relative_to(ROOT))] = count
    return sorted(counts, key=lambda test: -counts[test])[:MOST_FILES]


def run_tests(folder: Path, tests: list[str], log: Path) -> int | None:
    """The status of the tests in a fork of this process; None after SECONDS."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(_in_fork(folder, tests, log))
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


def _in_fork(folder: Path, tests: list[str], log: Path) -> int:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0), os.dup2(out, 1), os.dup2(out, 2)
    os.setsid()
    os.chdir(folder)
    sys.path[:0] = [str(folder / "src"), str(folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    import pytest

    imported_before = "ignore::pytest.PytestAssertRewriteWarning"
    return int(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", imported_before, *tests]))


@functools.cache
def check_without_fault(folder: Path, tests: tuple[str, ...]) -> None:
    log = folder / "tests.log"
    if run_tests(folder, list(tests), log) not in (0, NO_TESTS):
        raise SystemExit(f"{tests} fail without a fault:\n{log.read_text(encoding='utf-8')[-2000:]}")


def try_fault(folder: Path, file: Path, at: int) -> dict[str, Any]:
    inside = folder / file.relative_to(ROOT)
    source = inside.read_text(encoding="utf-8")
    changed, line, before, after = mutated(source, at)
    tests = nearest_tests(file)
    check_without_fault(folder, tuple(tests))
    inside.write_text(changed, encoding="utf-8")
    try:
        status = run_tests(folder, tests, folder / "tests.log")
    finally:
        inside.write_text(source, encoding="utf-8")
    where = f"{file.relative_to(ROOT)}:{line}"
    outcome = "survived" if status == 0 else "untested" if status == NO_TESTS or not tests else "noticed"
    return {"where": where, "before": before, "after": after, "outcome": outcome, "tests": tests}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", action="append", choices=PACKAGES, help="all four unless named")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="of each package, faults that were tried before")
    asked = parser.parse_args()
    import torch  # here, so that every fork has it
    import transformers.modeling_utils  # noqa: F401

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in COPIED:
            whole = ROOT / name
            shutil.copytree(whole, folder / name) if whole.is_dir() else shutil.copy(whole, folder)
        for package in asked.package or PACKAGES:
            for file, at in faults(package, asked.faults, asked.seed)[asked.skip :]:
                sys.stdout.write(json.dumps(try_fault(folder, file, at)) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
