"""The kernels compile for GPUs that are not here, and a block fits the shared memory of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses import FakeTensorMode

from headscope.attention.backends.fused import host
from headscope.attention.scores import Scores

KERNELS = ["attend", "strongest", "single", "listed", "attend", "layers", "segments"]
SHARED_KIB = {80: 163, 86: 99}
"""Of one block, by compute capability: CUDA C++ Programming Guide, table of technical specifications."""
CASES = [(80, "bfloat16", 256), (86, "bfloat16", 128), (86, "bfloat16", 256), (86, "float32", 256)]


@pytest.mark.slow
def test_every_kernel_fits_the_shared_memory_of_a_gpu() -> None:
    pytest.importorskip("triton", reason="the fused kernels need Triton: pip install triton")
    asked = json.dumps([(*case, SHARED_KIB[case[0]] >= 160) for case in CASES])
    script = Path(__file__).with_name("compile_launches.py")
    done = subprocess.run(
        [sys.executable, script, asked], capture_output=True, text=True, timeout=540, check=False
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(CASES), done.stderr[-3000:]
    for case, needed in zip(CASES, found, strict=True):
        assert [name for name, _ in needed] == KERNELS
        assert all(shared <= SHARED_KIB[case[0]] * 2**10 for _, shared in needed), (case, needed)


def test_a_gpu_that_triton_does_not_support_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="the fused kernels need Triton: pip install triton")
    for capability, reason in (
        ((7, 5), "fused needs a GPU of compute capability 8.0 or later, as Triton does, got 7.5"),
        ((8, 0), None),
    ):
        host._capability.cache_clear()
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, known=capability: known)
        with FakeTensorMode():
            q = torch.zeros(1, 2, 4, 16, device="cuda:0")
            assert host.refuse(q, q, q, Scores(scale=1.0)) == reason
    host._capability.cache_clear()
