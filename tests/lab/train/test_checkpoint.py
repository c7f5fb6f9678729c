"""A checkpoint holds everything needed to resume exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from headscope.errors import InputError
from headscope.lab.train.training import Checkpoint, capture, read_checkpoint, restore, write_checkpoint


def a_model(seed: int) -> tuple[nn.Module, torch.optim.AdamW]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def descend(model: nn.Module, optimizer: torch.optim.AdamW, step: int) -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
    model(x).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def weights(model: nn.Module) -> list[Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_resuming_from_a_file_equals_an_uninterrupted_run(tmp_path: Path, stop: int) -> None:
    straight, optimizer = a_model(0)
    for step in range(7):
        if step == stop:
            write_checkpoint(tmp_path / "c.safetensors", Checkpoint(step, {"seed": 0}, capture(straight, optimizer)))
        descend(straight, optimizer, step)
    resumed, fresh = a_model(1)
    found = read_checkpoint(tmp_path / "c.safetensors")
    assert (found.step, found.recipe) == (stop, {"seed": 0})
    restore(found, resumed, fresh)
    for step in range(stop, 7):
        descend(resumed, fresh, step)
    assert all(torch.equal(one, two) for one, two in zip(weights(straight), weights(resumed), strict=True))


def test_a_new_checkpoint_replaces_the_old(tmp_path: Path) -> None:
    for step in (1, 2):
        write_checkpoint(tmp_path / "c.safetensors", Checkpoint(step, {}, {"x": torch.full((2,), float(step))}))
    assert read_checkpoint(tmp_path / "c.safetensors").tensors["x"].tolist() == [2.0, 2.0]
    assert [file.name for file in tmp_path.iterdir()] == ["c.safetensors"]


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", Checkpoint(1, {}, {"x": torch.ones(100)}))
    whole = (tmp_path / "c").read_bytes()
    for size in (0, 7, 50, len(whole) - 1):
        (tmp_path / "c").write_bytes(whole[:size])
        with pytest.raises(InputError, match="is not a checkpoint of a training run"):
            read_checkpoint(tmp_path / "c")
