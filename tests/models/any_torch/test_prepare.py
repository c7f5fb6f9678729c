"""What may be given to a module that was opened with some inputs, and how its positions are labelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.models import tiny
from tests.models.any_torch.modules import Attention, Gpt, Vit, ids, picture, states
from torch import Tensor, nn

import headscope
from headscope.errors import InputError
from headscope.models.any_torch.arguments import IDS
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.any_torch.prepare import _first_items, _is_text, prepare


class Scaled(nn.Module):
    """Attention to what is given, by a number; and beside it, where it is long, by nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()

    def forward(self, x: Tensor, shift: Tensor, scale: float = 1.0) -> Tensor:
        return self.attn(x * scale + shift) if x.shape[1] < 20 else x


def opened(module: nn.Module, given: Any, **more: Any) -> Iterator[AnyTorchModel]:
    torch.manual_seed(0)
    with headscope.load(module.eval(), inputs=given, **more) as scope:
        assert isinstance(scope.model, AnyTorchModel)
        yield scope.model


@pytest.fixture(scope="module")
def scaled() -> Iterator[AnyTorchModel]:
    yield from opened(Scaled(), {"x": states(1, 9), "shift": states(1, 1, seed=5), "scale": 2.0})


@pytest.fixture(scope="module")
def gpt() -> Iterator[AnyTorchModel]:
    torch.manual_seed(0)
    with headscope.load(Gpt(), tiny.tokenizer(), inputs=(ids(), ids())) as scope:
        assert isinstance(scope.model, AnyTorchModel)
        yield scope.model


@pytest.fixture(scope="module")
def vit() -> Iterator[AnyTorchModel]:
    yield from opened(Vit(), picture(), processor=lambda image: torch.from_numpy(image).permute(2, 0, 1).float())


def test_what_is_not_given_is_as_it_was(scaled: AnyTorchModel) -> None:
    x, shift = states(1, 4, seed=8), states(1, 1, seed=9)
    known = scaled.arguments.named()
    for given, own in (
        (x, {"x": x}),
        ({"x": x}, {"x": x}),
        ({"shift": shift, "x": x}, {"x": x, "shift": shift}),
        ({"x": x, "scale": 3.0}, {"x": x, "scale": torch.tensor(3.0)}),
        ({"x": x, "scale": 3}, {"x": x, "scale": torch.tensor(3)}),
        ((x,), {"x": x}),
        ((x, shift), {"x": x, "shift": shift}),
    ):
        found = prepare(scaled, given)
        assert {name: value.tolist() for name, value in found.inputs.items()} == {
            name: value.tolist() for name, value in {**known, **own}.items()
        }
        assert [token.text for token in found.tokens] == ["[0]", "[1]", "[2]", "[3]"]


def test_a_number_that_is_given_counts(scaled: AnyTorchModel) -> None:
    x, shift = states(1, 4, seed=8), states(1, 1, seed=5)
    for scale in (0.5, 3):
        found = scaled.run(prepare(scaled, {"x": x, "scale": scale}).inputs).logits
        torch.testing.assert_close(found, scaled.model(x, shift, scale).detach())


@pytest.mark.parametrize(
    ("given", "wrong"), [({"y": torch.ones(1)}, "'y'"), ({"x": "text", "z": 1}, "'x', 'z'"), ({"x": None}, "'x'")]
)
def test_names_that_the_module_was_not_opened_with_are_refused(scaled: AnyTorchModel, given: Any, wrong: str) -> None:
    with pytest.raises(InputError, match=f"cannot give this model {wrong}; it was opened with "):
        prepare(scaled, given)


@pytest.mark.parametrize("given", ["a text", 3, (), ("a", "b"), (torch.ones(1), 3), [3, 1]])
def test_what_is_not_a_tensor_is_refused(scaled: AnyTorchModel, given: Any) -> None:
    with pytest.raises(
        InputError, match=r"cannot give Scaled a \w+; it was opened with x, shift: give tensors by name"
    ):
        prepare(scaled, given)


def test_inputs_that_reach_no_site_are_refused(scaled: AnyTorchModel) -> None:
    with pytest.raises(
        InputError, match="these inputs reach none of the sites that were found when the model was open"
    ):
        prepare(scaled, states(1, 20))


@pytest.mark.parametrize("given", [ids()[0], ids(), ids()[0].tolist(), {"idx": ids()}, {IDS: ids()}], ids=str)
def test_token_ids_are_read_under_any_name(gpt: AnyTorchModel, given: Any) -> None:
    found = prepare(gpt, given)
    assert found.inputs[IDS].tolist() == ids().tolist()
    assert [token.id for token in found.tokens] == ids()[0].tolist()


def test_a_text_is_tokenized(gpt: AnyTorchModel) -> None:
    found = prepare(gpt, "the horse crossed")
    assert found.inputs[IDS].tolist() == [[4, 5, 6]]
    assert [token.text for token in found.tokens] == ["the", "horse", "crossed"]


def test_ids_beyond_the_vocabulary_are_refused(gpt: AnyTorchModel) -> None:
    for given in ({"idx": torch.tensor([[3, 50]])}, {IDS: torch.tensor([[50, 3]])}):
        with pytest.raises(InputError, match="50"):
            prepare(gpt, given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("a text", True),
        ("", True),
        (ids(), True),
        (ids()[0] > 3, True),
        (states(1, 3), False),
        ([3, 1], True),
        ([{"role": "user"}], True),
        ([3, "a"], False),
        ([], False),
        ((3, 1), True),
        (3, False),
        ({"idx": ids()}, False),
    ],
)
def test_texts_ids_and_messages_are_told_from_other_inputs(given: Any, text: bool) -> None:
    assert _is_text(given) is text


def test_what_is_given_with_one_text_is_its_first_item() -> None:
    known = {
        IDS: torch.zeros(2, 5), "mask": torch.ones(2, 5), "by position": torch.ones(2, 5, 3), "style": torch.rand(2, 4),
        "all": torch.rand(3, 4), "number": torch.tensor(3.0),
    }  # fmt: skip
    found = _first_items(known)
    assert {name: tuple(value.shape) for name, value in found.items()} == {"style": (1, 4), "all": (3, 4), "number": ()}
    assert torch.equal(found["style"], known["style"][:1])


def test_a_picture_goes_through_the_function_that_makes_tensors_of_it(vit: AnyTorchModel) -> None:
    image = (picture()[0].permute(1, 2, 0).numpy() * 20 + 100).astype(np.uint8)
    found = prepare(vit, image)
    assert torch.equal(found.inputs["x"], torch.from_numpy(image).permute(2, 0, 1).float()[None])
    assert [found.tokens[at].text for at in (0, 1, 12)] == ["CLS", "patch 0,0", "patch 2,3"]


def test_a_processor_may_make_a_batch_or_name_its_pixels(vit: AnyTorchModel) -> None:
    image = np.zeros((24, 32, 3), dtype=np.uint8)
    before = vit.processor.media
    try:
        for made in (picture(), {"pixel_values": picture()}):
            vit.processor.media = type(before)(image=lambda given, made=made: made)
            assert torch.equal(prepare(vit, image).inputs["x"], picture())
    finally:
        vit.processor.media = before


def test_media_that_nothing_makes_tensors_of_are_refused(vit: AnyTorchModel, scaled: AnyTorchModel) -> None:
    image = np.zeros((24, 32, 3), dtype=np.uint8)
    for opened, given in (
        (scaled, image),
        (vit, (image, "a text beside it")),
        (vit, np.zeros(8, dtype=np.float32)),
    ):
        with pytest.raises(
            InputError, match=r"was given no function that makes tensors of it; pass processor=, or give x"
        ):
            prepare(opened, given)
