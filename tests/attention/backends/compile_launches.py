"""Compile the Triton kernels as they would be launched, for GPUs that are not here, and print what each needs.

Run by ``test_compiled_kernels.py`` in a process of its own: the type checks of the tests would wrap the kernels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from headscope.attention.backends.fused import flash, host, layers, segments
from headscope.attention.masks import causal
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

Launch = tuple[Any, tuple[Any, ...], dict[str, Any]]

LENGTH = 96
EVERYTHING = frozenset({"entropy", "distance", "strongest"})


def launches(run: Callable[[], object]) -> list[Launch]:
    """The kernels that a function launches, with their arguments; none of them runs."""
    made: list[Launch] = []

    def note(kernel: Any, *args: Any, grid: Any, warmup: bool, **constants: Any) -> None:
        made.append((kernel, args, constants))

    JITFunction.run = note  # type: ignore[method-assign,assignment]
    run()
    return made


def compiled(launch: Launch, capability: int) -> Any:
    """A kernel compiled for a GPU with the specialisations that Triton would choose for these arguments."""
    kernel, args, constants = launch
    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    constants = constants | {"debug": False, "instrumentation_mode": ""}
    options, signature, fixed, attributes = kernel._pack_args(backend, constants, *bind(*args, **constants))
    source = ASTSource(kernel, signature, fixed, attributes)
    return triton.compile(source, target=target, options=options.__dict__)


def observed(dtype: torch.dtype, d_head: int, much_memory: bool) -> list[Launch]:
    """Every kernel of the long and of the short path, for one kind of head."""
    flash.has_much_shared_memory = layers.has_much_shared_memory = lambda _: much_memory  # type: ignore[assignment]
    q, k = (torch.zeros(1, heads, LENGTH, d_head, dtype=dtype) for heads in (4, 2))
    scores = Scores(mask=causal()).bind(q, k)
    places, ids = torch.arange(LENGTH)[None], torch.arange(LENGTH)[None] % 3
    questions = {"previous token": Question(places, places + 1), "same token": Question(ids, ids, exclude_self=True)}
    most = {str(number): questions["same token"] for number in range(layers.MOST_QUESTIONS)}
    return [
        *launches(lambda: host.observe(q, k, k, scores, questions, EVERYTHING)),
        *launches(lambda: host.observe(q, k, k, scores, {}, frozenset())),
        *launches(lambda: layers.statistics_of(q, k, scores, most)),
        *launches(
            lambda: segments.sum_segments(_statistics(len(most)), _pieces(len(most)), segments.Bins(0.25, 64, 24))
        ),
    ]


def _statistics(n_questions: int) -> layers.LayerStatistics:
    values = torch.zeros(layers.TRAITS + n_questions, 1, 4, LENGTH)
    return layers.LayerStatistics(values, torch.zeros(1, 4, LENGTH, dtype=torch.long))


def _pieces(n_questions: int) -> segments.Segments:
    valid = torch.ones(1, segments.TRAITS + n_questions, LENGTH, dtype=torch.bool)
    rows, shares = torch.tensor([[0, 0, LENGTH]], dtype=torch.int32), torch.zeros(1, n_questions, LENGTH)
    return segments.Segments(rows, valid, shares, torch.zeros(n_questions), itself=0)


def main() -> None:
    """Print a line of JSON for each case: its kernels, and the bytes of shared memory that a block of each needs."""
    for capability, dtype, d_head, much_memory in json.loads(sys.argv[1]):
        made = observed(getattr(torch, dtype), d_head, much_memory)
        needed = [(launch[0].__name__, compiled(launch, capability).metadata.shared) for launch in made]
        sys.stdout.write(json.dumps(needed) + "\n")


if __name__ == "__main__":
    main()
