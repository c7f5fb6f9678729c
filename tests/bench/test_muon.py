"""The batched Muon makes torch's own update."""

from __future__ import annotations

import torch
from bench.muon import Muon, _orthogonal


def test_the_update_is_that_of_torch_for_every_shape() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((8, 8), (16, 8), (8, 8), (8, 24))
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    ours, theirs = ([torch.nn.Parameter(each.clone()) for each in start] for _ in range(2))
    mine = Muon(ours, lr=0.01, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(5):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        mine.step()
        reference.step()
    for one, other, before in zip(ours, theirs, start, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-3)
        assert float((one.detach() - before).abs().max()) > 1e-2


def test_singular_values_come_near_one() -> None:
    matrices = torch.randn(3, 12, 20, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(_orthogonal(matrices).float())
    assert 0.5 < float(values.min()) <= float(values.max()) < 1.5
