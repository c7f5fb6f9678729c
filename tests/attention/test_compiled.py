"""torch.compile makes one graph of the module. In a process of its own: the compiler cannot trace the shape checks."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import torch
from torch.testing import assert_close
from headscope.attention import KVCache, MultiHeadAttention, Rope, causal, dense, documents, padding, window

BACKEND = sys.argv[1]
torch.manual_seed(0)
BLIND = torch.ones(9, 9).tril().bool()
BLIND[4] = False
MASKS = [None, causal(), causal() & padding([9, 5], side="left"), causal() & window(3) & documents([0] * 4 + [1] * 5),
         dense(BLIND)]
OPTIONS = [{"rope": Rope(4), "qk_norm": True, "bias": True}, {}, {"rope": Rope(2, pairing="interleaved")}]
if BACKEND == "inductor":  # its C++ takes many seconds per graph to compile: one, with everything in it
    OPTIONS, MASKS = OPTIONS[:1], MASKS[2:3]
for options in OPTIONS:
    module = MultiHeadAttention(16, 4, 2, **options)
    compiled = torch.compile(module, fullgraph=True, backend=BACKEND)
    for mask in MASKS:
        x = torch.randn(2, 9, 16)
        ours, theirs = compiled(x, mask=mask), module(x, mask=mask)
        assert_close(ours, theirs)
        weight = module.k_proj.weight
        assert_close(*(torch.autograd.grad(y.square().sum(), weight)[0] for y in (ours, theirs)))
    torch._dynamo.reset()

if BACKEND == "inductor":
    print("equal")
    sys.exit()
module = MultiHeadAttention(16, 4, 2, rope=Rope(4)).eval()
compiled = torch.compile(module, fullgraph=True, backend=BACKEND, dynamic=True)
x, cache = torch.randn(1, 5, 16), KVCache(module, capacity=5)
rows = []
with torch.no_grad():
    for position in range(5):
        rows.append(compiled(x[:, position:position + 1], mask=causal(), cache=cache[0]))
        cache.advance(1)
    assert_close(torch.cat(rows, 1), module(x, mask=causal()))
print("equal")
"""


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_module_gives_the_same_outputs_and_gradients(backend: str) -> None:
    if backend == "inductor" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("torch.compile for a CPU needs a C++ compiler; on Debian: apt-get install g++")
    command = [sys.executable, "-c", SCRIPT, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.strip() == "equal", done.stderr[-4000:]
