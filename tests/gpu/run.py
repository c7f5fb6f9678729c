"""The GPU checks without pytest: ``PYTHONPATH=src:. python tests/gpu/run.py [part parts]``."""

from __future__ import annotations

import sys
import time
import traceback
from functools import partial

from tests.gpu.checks import ALL, DTYPES, OTHERS, check_case
from tests.gpu.layer_checks import LAYER_CASES, LAYER_OTHERS, check_layers


def main() -> int:
    work = {f"{case.name} {str(dtype)[6:]}": partial(check_case, case, dtype) for case in ALL for dtype in DTYPES}
    together = {
        f"layers {case.name} {str(dtype)[6:]}": partial(check_layers, case, dtype)
        for case in LAYER_CASES
        for dtype in DTYPES
    }
    work |= together | {check.__name__: check for check in (*OTHERS, *LAYER_OTHERS)}

    part, parts = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (0, 1)
    failed = 0
    for name in list(work)[part::parts]:
        began = time.perf_counter()
        try:
            work[name]()
            sys.stdout.write(f"passed {name} in {time.perf_counter() - began:.1f} s\n")
        except Exception:
            failed += 1
            sys.stdout.write(f"FAILED {name}: {traceback.format_exc(limit=-2)[-1500:]}\n")
        sys.stdout.flush()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
