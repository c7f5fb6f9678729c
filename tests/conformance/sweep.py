"""Verify every class: ``python -m tests.conformance.sweep --write docs/conformance.md``."""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

SECONDS = 60
"""Of processor time, so that a busy machine changes no verdict."""


def main() -> None:
    """Verify all classes, or those whose family or class is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log", type=Path, default=Path("scratch/conformance.jsonl"))
    parser.add_argument("--resume", action="store_true", help="verify only the classes that the log does not hold yet")
    parser.add_argument("--write", type=Path, default=None)
    given = parser.parse_args()
    from tests.conformance.families import jobs

    wanted = [job for job in jobs() if not given.words or any(w in (job.model_type, job.kind) for w in given.words)]
    given.log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    verdicts = finished(given.log) if given.resume else []
    done = {(verdict["job"]["model_type"], verdict["job"]["kind"]) for verdict in verdicts}
    wanted = [job for job in wanted if (job.model_type, job.kind) not in done]
    with given.log.open("a" if given.resume else "w", encoding="utf-8") as log:
        for verdict in _all(wanted, given.workers):
            verdicts.append(verdict)
            log.write(json.dumps(verdict) + "\n")
            log.flush()
            job = verdict["job"]
            sys.stdout.write(
                f"{verdict['state']:16} {job['category']:24} {job['model_type']:28} {job['kind']:44} "
                f"{verdict['why'][:150]}\n"
            )
            sys.stdout.flush()
    states = [verdict["state"] for verdict in verdicts]
    sys.stdout.write(
        f"{ {state: states.count(state) for state in sorted(set(states))} } in {time.monotonic() - started:.0f} s\n"
    )
    if given.write is not None:
        from tests.conformance.report import write

        write(verdicts, given.write)


def finished(log: Path) -> list[dict[str, Any]]:
    """Verdicts that an ended sweep left in its log; a last line that was cut off is removed."""
    if not log.exists():
        return []
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        log.write_text("".join(whole), encoding="utf-8")
    return [json.loads(line) for line in whole]


def _all(wanted: list[Any], workers: int) -> Iterator[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, initializer=_quiet, maxtasksperchild=60) as pool:
        yield from pool.imap_unordered(_one, wanted, chunksize=4)


def _quiet() -> None:
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)


def _one(job: Any) -> dict[str, Any]:
    from tests.conformance.claims import Verdict, verify
    from tests.conformance.families import folder_of

    def late(*_: object) -> None:
        raise TimeoutError(f"took more than {SECONDS} s of processor time")

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        verdict = verify(job)
    except BaseException as error:  # one family must not end the sweep
        verdict = Verdict(job, "cannot be built", f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    try:
        folder = folder_of(job)
    except Exception:
        folder = job.model_type
    return {**asdict(verdict), "folder": folder}


if __name__ == "__main__":
    main()
