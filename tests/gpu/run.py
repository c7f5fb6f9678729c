"""The GPU checks without pytest: ``PYTHONPATH=src:. python tests/gpu/run.py``."""

from __future__ import annotations

import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.gpu.checks import ALL, DTYPES, OTHERS, check_case


def main() -> int:
    work = {f"{case.name} {str(dtype)[6:]}": partial(check_case, case, dtype) for case in ALL for dtype in DTYPES}
    work |= {check.__name__: check for check in OTHERS}

    def attempt(name: str) -> str | None:
        try:
            work[name]()
        except Exception:
            return f"{name}: {traceback.format_exc(limit=-2)[-1500:]}"
        return None

    with ThreadPoolExecutor(1) as pool:
        failed = [message for message in pool.map(attempt, work) if message]
    sys.stdout.write("\n".join([*failed, f"{len(work) - len(failed)} passed, {len(failed)} failed"]) + "\n")
    return min(len(failed), 1)


if __name__ == "__main__":
    sys.exit(main())
