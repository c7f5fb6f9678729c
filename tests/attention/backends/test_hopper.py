"""The Hopper kernel, tested without a Hopper GPU: it compiles, spills no register, and says when it cannot run."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from headscope.attention.backends.fused import flash
from headscope.attention.backends.fused.host import KernelInputs
from headscope.attention.masks import causal
from headscope.attention.scores import Scores

# In a process of its own: the type checks of the tests would wrap functions that Gluon compiles from source.
SCRIPT = """
import re
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import NVMMASharedLayout
from headscope.attention.backends.fused import hopper

fixed = dict(GROUP=4, D=128, DP=128, HAS_LOW=True, ENTROPY=True, DISTANCE=True, STRONGEST=True)
tile = f"tensordesc<bf16[1,1,128,128],{NVMMASharedLayout(128, 16, rank=4)!r}>"
kinds = dict.fromkeys("QKV", tile) | {"OUT": "*bf16", "scale": "fp32"} | dict.fromkeys(("TILE", "LOW", "HIGH"), "*i32")
names = hopper.attend.arg_names
signature = {n: "constexpr" if n in fixed else kinds.get(n, "*fp32" if n.isupper() else "i32") for n in names}
source = GluonASTSource(hopper.attend, signature, {(names.index(n),): value for n, value in fixed.items()})
options = {"num_warps": 4, "maxnreg": hopper.REGISTERS}
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
code = compiled.asm["sass"]
print(len(re.findall(r"HGMMA", code)) > 0, len(re.findall(r"LDL|STL", code)), compiled.metadata.shared <= 232448)
"""


@pytest.mark.slow
def test_it_compiles_for_hopper_without_spilling() -> None:
    pytest.importorskip("triton", reason="the fused kernels need Triton: pip install triton")
    if flash._triton() != flash.GLUON:
        pytest.skip(f"written in the Gluon of Triton {flash.GLUON}, and this is {flash._triton()}")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["True", "0", "True"], done.stderr[-3000:]


def inputs(
    dtype: torch.dtype = torch.bfloat16, d_head: int = 64, softcap: float | None = None, odd: bool = False
) -> KernelInputs:
    q = torch.zeros(1, 2, 8, d_head + odd, dtype=dtype)[..., :d_head]
    return KernelInputs.prepare(q, q, q, Scores(mask=causal(), softcap=softcap).bind(q, q))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (inputs(torch.float32), "it takes half precision and d_head up to 128"),
        (inputs(d_head=256), "it takes half precision and d_head up to 128"),
        (inputs(softcap=30.0), "it has no softcap"),
        (inputs(odd=1), "the tensor memory accelerator needs addresses and strides in units of 16 bytes"),
        (inputs(d_head=80), None),
        (inputs(), None),
    ],
)
def test_it_says_why_it_cannot_run(given: KernelInputs, reason: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert flash.refuse_hopper(given) == "it needs a GPU of compute capability 9"
    monkeypatch.setattr(flash, "_is_hopper", lambda device: True)
    monkeypatch.setattr(flash, "_triton", lambda: flash.GLUON)
    assert flash.refuse_hopper(given) == reason
    monkeypatch.setattr(flash, "_triton", lambda: "4.0")
    assert flash.refuse_hopper(given) == "it is tested with Triton 3.6 only"
