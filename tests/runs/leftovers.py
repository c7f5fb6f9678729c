"""End and name the processes that a run of the tests left behind, so that the run itself can end."""

from __future__ import annotations

import faulthandler
import os
import uuid
from collections.abc import Iterator

import psutil
import pytest

RUN = "HEADSCOPE_TEST_RUN"  # in the environment of every process that this run has started
GRACE = 10.0  # seconds for processes that are about to end: a browser's own, a worker's
LAST_SECONDS = 120.0  # for the interpreter to end once the tests have
ENDS_WITH_US = ("multiprocessing.resource_tracker", "torch/_inductor/compile_worker")


def mark_run(config: pytest.Config) -> None:
    """Name this run in the environment that children inherit; workers have inherited it."""
    if not hasattr(config, "workerinput"):
        os.environ[RUN] = uuid.uuid4().hex


def end_leftovers(session: pytest.Session) -> list[str]:
    """End what outlives the tests, and fail the run; a sentence for each names the test that started it."""
    if hasattr(session.config, "workerinput"):
        return []
    _, left = psutil.wait_procs(list(_started_here()), timeout=GRACE)
    sentences = [_sentence(process) for process in left]
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=GRACE)
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return sentences


def bound_the_end() -> None:
    """Print every thread and exit if the interpreter waits for one of them forever."""
    faulthandler.dump_traceback_later(LAST_SECONDS, exit=True)


def _started_here() -> Iterator[psutil.Process]:
    here = os.environ[RUN]
    for process in psutil.process_iter():
        try:
            ours = process.pid != os.getpid() and process.environ().get(RUN) == here
            if ours and process.status() != psutil.STATUS_ZOMBIE and not _ends_with_us(process):
                yield process
        except psutil.Error:
            continue  # gone, or somebody else's


def _ends_with_us(process: psutil.Process) -> bool:
    command = " ".join(process.cmdline())
    return process.ppid() == os.getpid() and any(name in command for name in ENDS_WITH_US)


def _sentence(process: psutil.Process) -> str:
    try:
        test = process.environ().get("PYTEST_CURRENT_TEST", "a fixture or the collection")
        command = " ".join(process.cmdline())[:200]
        return f"process {process.pid} outlived the tests and was ended ({command}); started in {test}"
    except psutil.Error:
        return f"process {process.pid} outlived the tests by some seconds"
