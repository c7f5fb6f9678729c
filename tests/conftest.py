"""Settings and checks shared by all tests."""

from __future__ import annotations

import gc
import shutil
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.runs import typechecks
from tests.runs.leftovers import bound_the_end, end_leftovers, mark_run

typechecks.install()

# Neither a deadline nor a limit on drawing examples: both say how busy the machine is, not whether the code is right.
settings.register_profile(
    "test", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("test")  # `make fuzz` chooses the other one

NEEDS = {
    "browser": (shutil.which("chromium"), "browser tests need chromium on PATH; on Debian: apt-get install chromium"),
    "gpu": (torch.cuda.is_available(), "GPU tests need a CUDA device; where there is one: make test TESTS=tests/gpu"),
}

# Files that take a minute or more go first: the last file of a run keeps only one worker busy.
LONG = (
    "tests/fuzz/test_api.py", "tests/fuzz/test_broken_files.py", "tests/e2e", "tests/cli",
    "tests/heads/roles/test_controls.py", "tests/models/test_real_weights.py", "tests/attention/test_compiled.py",
    "tests/scan/test_ray_pool.py", "tests/runs", "tests/security", "tests/attack", "tests/test_wheel.py",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    mark_run(config)


def pytest_unconfigure() -> None:
    bound_the_end()


@pytest.fixture(autouse=True)
def same_start() -> Iterator[None]:
    """Each test draws the same numbers, whichever ran before it, and leaves the process as it found it."""
    torch.manual_seed(0)
    before = process_state()
    yield
    assert process_state() == before, "threads, precision, gradients or folder are not as they were before this test"


def process_state() -> tuple[object, ...]:
    return torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(), Path.cwd()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    """A fixture that several tests share draws the same numbers, whichever of them comes first."""
    if fixturedef.scope != "function":
        torch.manual_seed(0)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark, (there, reason) in NEEDS.items():
            if item.get_closest_marker(mark) and not there:
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=longest_first)


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported lives as long as the run: no collection has to look through it


def longest_first(item: pytest.Item) -> int:
    return next((place for place, path in enumerate(LONG) if item.nodeid.startswith(path)), len(LONG))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Say in the last lines which tests were not run and how to run them, and which processes were left behind."""
    yield
    left = end_leftovers(session)
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = terminal.stats.get("skipped", []) if terminal else []
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in sorted(reasons.items()):
        terminal.write_line(f"{count} {'test was' if count == 1 else 'tests were'} not run: {reason}", yellow=True)
    for sentence in left:
        terminal.write_line(sentence, red=True)
