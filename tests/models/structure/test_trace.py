"""One watched pass: who attended, in which order and how often, and who attended without telling us."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.models import tiny
from torch import Tensor, nn

from headscope.models.huggingface.attention import attention, install, tracer, uninstall
from headscope.models.structure.trace import hooked, trace, tracing


class Own(nn.Module):
    """Attention that calls nobody: a softmax of its own, torch's function, or torch's module."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.theirs = how, nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "softmax":
            return (x @ x.mT).softmax(-1) @ x
        if self.how == "function":
            return nn.functional.scaled_dot_product_attention(x, x, x)
        if self.how == "module":
            return self.theirs(x, x, x)[0]  # type: ignore[no-any-return]
        if self.how == "a share of few":
            return x * torch.softmax(x.mean((0, 1)), -1)
        return x * torch.softmax(x.mean(-1, keepdim=True), -1)


class Twice(nn.Module):
    """One attention of ours, called twice, and one of somebody's own beside it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.ours, self.own, self.out = nn.Identity(), Own(how), nn.Linear(8, 8)

    def forward(self, x: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
        for _ in range(2):
            z, _ = attention(self.ours, *(x.unflatten(2, (2, 4)).transpose(1, 2),) * 3, None)
            x = x + self.out(z.flatten(2))
        return {"ids": torch.zeros(3, dtype=torch.long), "states": self.own(x) * scale}


def test_a_module_called_twice_is_visited_twice_and_numbered() -> None:
    seen = trace(Twice("nothing"), {"x": torch.randn(2, 5, 8)})
    assert [(visit.path, visit.times, visit.matrix) for visit in seen.visits] == [
        ("ours", 1, "out"),
        ("ours", 2, "out"),
    ]
    assert [leaf.path for leaf in seen.leaves] == ["out", "out"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("softmax", {"own": "softmax"}),
        ("function", {"own": "scaled_dot_product_attention"}),
        ("module", {"own.theirs": "multi_head_attention_forward"}),
        ("a share of few", {}),
        ("nothing", {}),
    ],
)
def test_attention_elsewhere_is_noticed_with_its_place(how: str, expected: dict[str, str]) -> None:
    """Our own function uses the same operations and is not counted; nor is a softmax over a vector."""
    seen = trace(Twice(how).eval(), {"x": torch.randn(2, 5, 8)})
    assert {path: name for path, name in seen.unseen.items() if path.startswith("own")} == expected


def test_further_arguments_reach_the_model_and_its_answer_is_kept() -> None:
    model, x = Twice("nothing"), torch.randn(2, 5, 8)
    one, two = (trace(model, {"x": x}, scale=scale).output["states"] for scale in (1.0, 2.0))
    torch.testing.assert_close(2 * one, two)


def test_nothing_is_left_behind_even_after_an_error() -> None:
    model = Twice("nothing")
    with pytest.raises(RuntimeError):
        trace(model, {"x": torch.randn(2, 5, 9)})
    assert tracer.get() is None
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_the_pass_itself_is_not_changed_and_keeps_no_gradient() -> None:
    model = tiny.llama()
    ids = torch.randint(3, 90, (2, 9))
    install(model)
    seen = trace(model, {"input_ids": ids})
    uninstall(model)
    with torch.no_grad():
        torch.testing.assert_close(seen.output.logits, model(input_ids=ids).logits, atol=1e-5, rtol=1e-4)
    assert not seen.output.logits.requires_grad
    assert [visit.path for visit in seen.visits] == [f"model.layers.{layer}.self_attn" for layer in range(2)]
    assert [visit.matrix for visit in seen.visits] == [f"model.layers.{layer}.self_attn.o_proj" for layer in range(2)]


def test_states_of_the_residual_stream_are_those_of_blocks_that_hold_attention() -> None:
    model = tiny.llama()
    install(model)
    seen = trace(model, {"input_ids": torch.randint(3, 90, (1, 6))}, output_hidden_states=True)
    uninstall(model)
    shapes = {tuple(block.shape) for block in seen.blocks}
    assert (1, 6, 32) in shapes
    assert any(torch.equal(block, seen.output.hidden_states[1]) for block in seen.blocks)
    mlp = [leaf.left for leaf in seen.leaves if leaf.path.endswith("mlp.down_proj")]
    assert len(mlp) == 2
    assert not any(torch.equal(block, made) for block in seen.blocks for made in mlp)


def test_hooks_answer_in_their_own_thread_alone() -> None:
    """Another thread that runs the same module meanwhile is neither seen nor changed."""
    module, x, seen = nn.Linear(4, 4), torch.ones(1, 4), []

    def enter(part: nn.Module, args: object, kwargs: object) -> None:
        seen.append("entered")

    def leave(part: nn.Module, args: object, kwargs: object, output: Tensor) -> Tensor:
        seen.append("left")
        return output * 0

    with hooked([module], enter=enter, leave=leave), ThreadPoolExecutor(1) as elsewhere:
        theirs = elsewhere.submit(module, x).result()
        assert seen == []
        assert torch.equal(module(input=x), torch.zeros(1, 4))
    assert seen == ["entered", "left"]
    assert torch.equal(module(x), theirs)


def test_hooks_and_the_tracer_go_however_the_block_ends() -> None:
    module = nn.Linear(4, 4)

    def fail() -> None:
        with hooked([module], enter=print, leave=print), tracing(lambda arrival: arrival.z):
            assert tracer.get() is not None
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert tracer.get() is None
    assert not module._forward_hooks
    assert not module._forward_pre_hooks
