"""Record which tests run each line of the source, and find the tests of a line.

    python -m bench.covering_tests runs/covering

runs the tests (without browsers and GPUs) under coverage.py, half an hour on two cores, and keeps for every line of the
four packages below which tests ran it, and how long each test took. Fixtures and caches are made once for many
tests, so the files of those tests are candidates too, after the tests themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("attention", "models", "scan", "app/server")
SKIPPED = ("embedded", "fused")  # weights; kernels that only a GPU runs


def record(folder: Path) -> int:
    """Run the tests under coverage and keep what they ran in a folder; the status of pytest."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = ",".join(str(ROOT / "src/headscope" / package) for package in PACKAGES)
    omitted = ",".join(f"*/{name}/*" for name in SKIPPED)
    settings = folder / "coveragerc"
    data = f"parallel = true\ndata_file = {folder / 'lines'}\n"
    settings.write_text(f"[run]\nsource = {sources}\nomit = {omitted}\n{data}", encoding="utf-8")
    options = ["-q", "-n", "2", "--dist", "loadfile", "--ignore=tests/e2e", "--ignore=tests/gpu"]
    options += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    options += [f"--junitxml={folder / 'durations.xml'}", "-o", "junit_duration_report=total"]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # a fork of a process with more would wait for them forever
    return subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=one_thread).returncode


class CoveringTests:
    """Which recorded tests run a line, the quickest first."""

    def __init__(self, folder: Path) -> None:
        from coverage import CoverageData

        self._data = CoverageData(str(folder / "lines"))
        self._data.read()
        self._measured = {name.partition("/src/headscope/")[2]: name for name in self._data.measured_files()}
        self.seconds = dict(_durations(folder / "durations.xml"))
        self._lines: dict[str, dict[int, list[str]]] = {}

    def tests(self, file: Path, lines: range) -> list[str]:
        """Tests that run one of the lines of a file of the source, in order of their duration."""
        found = {name for name, phase in self._contexts(file, lines) if phase == "run"}
        return sorted(found, key=lambda name: self.seconds.get(name, 1.0))

    def files(self, file: Path, lines: range) -> list[str]:
        """Test files of which a test or a fixture runs one of the lines, or else any line of the file."""
        contexts = list(self._contexts(file, lines)) or list(self._contexts(file, range(1, 1_000_000)))
        counts = Counter(name.partition("::")[0] for name, _ in contexts)
        return sorted(counts, key=lambda name: -counts[name])

    def _contexts(self, file: Path, lines: range) -> Iterator[tuple[str, str]]:
        name = file.as_posix().partition("/src/headscope/")[2]
        if name not in self._lines:
            measured = self._measured.get(name)
            self._lines[name] = self._data.contexts_by_lineno(measured) if measured else {}
        for line, contexts in self._lines[name].items():
            if line in lines:
                for context in filter(None, contexts):
                    test, _, phase = context.rpartition("|")
                    yield test, phase


def _durations(junit: Path) -> Iterator[tuple[str, float]]:
    for case in ElementTree.parse(junit).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        yield f"{file}::{case.get('name')}", float(case.get("time", 1))


if __name__ == "__main__":
    sys.exit(record(Path(sys.argv[1]).absolute()))
