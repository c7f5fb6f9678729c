"""Hopper's kernel without a Hopper: it compiles for one, spills no register, and says when it is not used."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from headscope.attention.backends.fused import flash
from headscope.attention.backends.fused.host import Call
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


def test_it_compiles_for_hopper_without_spilling() -> None:
    pytest.importorskip("triton")
    if flash._triton() != flash.GLUON:
        pytest.skip(f"written in the Gluon of Triton {flash.GLUON}, and this is {flash._triton()}")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["True", "0", "True"], done.stderr[-3000:]


def call(
    dtype: torch.dtype = torch.bfloat16, d_head: int = 64, softcap: float | None = None, odd: bool = False
) -> Call:
    q = torch.zeros(1, 2, 8, d_head + odd, dtype=dtype)[..., :d_head]
    return Call.prepare(q, q, q, Scores(mask=causal(), softcap=softcap).bind(q, q))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (call(torch.float32), "it takes half precision and d_head up to 128"),
        (call(d_head=256), "it takes half precision and d_head up to 128"),
        (call(softcap=30.0), "it knows no softcap"),
        (call(odd=1), "the copy engine steps in units of 16 bytes"),
        (call(d_head=80), None),
        (call(), None),
    ],
)
def test_it_says_what_it_does_not_take(asked: Call, reason: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert flash.refuse_hopper(asked) == "it needs a GPU of compute capability 9"
    monkeypatch.setattr(flash, "_is_hopper", lambda device: True)
    monkeypatch.setattr(flash, "_triton", lambda: flash.GLUON)
    assert flash.refuse_hopper(asked) == reason
    monkeypatch.setattr(flash, "_triton", lambda: "4.0")
    assert flash.refuse_hopper(asked) == "it is tested with Triton 3.6 only"
