"""A trace lists every attention call in order, and attention computed outside our function."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.models import tiny
from torch import Tensor, nn

from headscope.models.huggingface.attention import attention, install, uninstall
from headscope.models.modes import hooked
from headscope.models.structure.trace import trace


class Own(nn.Module):
    """Attention outside our function: a softmax of its own, torch's function, or torch's module."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.theirs = how, nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "softmax":
            return (x @ x.mT).softmax(-1) @ x
        if self.how == "softmax by keyword":
            return torch.softmax(input=x @ x.mT, dim=-1) @ x
        if self.how == "function":
            return nn.functional.scaled_dot_product_attention(x, x, x)
        if self.how == "module":
            return self.theirs(x, x, x)[0]  # type: ignore[no-any-return]
        if self.how == "softmax of two":
            return x * x[..., :2].softmax(-1)[..., :1]
        if self.how == "a softmax of a vector":
            return x * torch.softmax(x.mean((0, 1)), -1)
        return x * torch.softmax(x.mean(-1, keepdim=True), -1)


class Twice(nn.Module):
    """One attention through our function, called twice, and one outside of it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.ours, self.own, self.out = nn.Identity(), Own(how), nn.Linear(8, 8)

    def forward(self, x: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
        for _ in range(2):
            z, _ = attention(self.ours, *(x.unflatten(2, (2, 4)).transpose(1, 2),) * 3, None)
            x = x + self.out(z.flatten(2))
        return {"ids": torch.zeros(3, dtype=torch.long), "states": self.own(x) * scale}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("softmax", {"own": "softmax"}),
        ("softmax by keyword", {"own": "softmax"}),
        ("softmax of two", {"own": "softmax"}),
        ("function", {"own": "scaled_dot_product_attention"}),
        ("module", {"own.theirs": "multi_head_attention_forward"}),
        ("a softmax of a vector", {}),
        ("nothing", {}),
    ],
)
def test_attention_outside_our_function_is_found_with_its_path(how: str, expected: dict[str, str]) -> None:
    """Our own function uses the same operations and is not counted; nor is a softmax over a vector."""
    traced = trace(Twice(how).eval(), {"x": torch.randn(2, 5, 8)})
    assert traced.other_attention == expected


def test_the_pass_itself_is_not_changed_and_keeps_no_gradient() -> None:
    model = tiny.llama()
    ids = torch.randint(3, 90, (2, 9))
    install(model)
    traced = trace(model, {"input_ids": ids})
    uninstall(model)
    with torch.no_grad():
        torch.testing.assert_close(traced.output.logits, model(input_ids=ids).logits, atol=1e-5, rtol=1e-4)
    assert not traced.output.logits.requires_grad
    assert [call.path for call in traced.calls] == [f"model.layers.{layer}.self_attn" for layer in range(2)]
    assert [call.matrix for call in traced.calls] == [f"model.layers.{layer}.self_attn.o_proj" for layer in range(2)]


def test_hooks_run_in_their_own_thread_alone() -> None:
    """A forward of the same module in another thread is not changed."""
    module, x, called = nn.Linear(4, 4), torch.ones(1, 4), []

    def before(part: nn.Module, args: object, kwargs: object) -> None:
        called.append("before")

    def after(part: nn.Module, args: object, kwargs: object, output: Tensor) -> Tensor:
        called.append("after")
        return output * 0

    with hooked([module], before=before, after=after), ThreadPoolExecutor(1) as another:
        theirs = another.submit(module, x).result()
        assert called == []
        assert torch.equal(module(input=x), torch.zeros(1, 4))
    assert called == ["before", "after"]
    assert torch.equal(module(x), theirs)
