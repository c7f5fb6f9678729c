"""Logits are the residual stream through the final norm and W_U, in families that differ there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models import tiny
from torch import Tensor, nn
from torch.testing import assert_close

from headscope.errors import ModelError
from headscope.models.loading import open_model
from headscope.models.structure.trace import LeafCall, Trace
from headscope.models.structure.unembedding import (
    CAPPED,
    HELD_NORM,
    NO_NORM,
    UnembeddingPath,
    _after,
    _output_matrix,
    _ratio,
    find_last_matrix,
    find_unembedding,
)

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
BASE = {**tiny.SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}


def build(name: str) -> Any:
    if name == "t5, tied and divided":
        return tiny.t5(tie_word_embeddings=True)
    if name == "t5, untied":
        return tiny.t5(tie_word_embeddings=False)
    if name == "granite, divided":
        return tiny.build("GraniteConfig", "GraniteForCausalLM", **BASE, logits_scaling=4.0)
    if name == "cohere, multiplied":
        return tiny.build("CohereConfig", "CohereForCausalLM", **BASE, logit_scale=0.25)
    if name == "gpt-neox":
        return tiny.build("GPTNeoXConfig", "GPTNeoXForCausalLM", **tiny.SIZES)
    return {"llama": tiny.llama, "gpt2": tiny.gpt2}[name]()


FAMILIES = (
    "llama", "gpt2", "gpt-neox", "t5, tied and divided", "t5, untied", "granite, divided", "cohere, multiplied",
)  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_the_norm_and_w_u_give_the_models_own_logits(name: str) -> None:
    opened = open_model(build(name))
    inputs = {"input_ids": IDS}
    if "decoder_input_ids" in opened.probe:
        inputs["decoder_input_ids"] = IDS[:, :4]
    with torch.no_grad():
        done = opened.run(inputs, residual=True)
        end = opened.unembedding()
        assert done.residual is not None
        states = done.residual if end.norm is None else end.norm(done.residual)
        logits = states @ end.weight.T + (0 if end.bias is None else end.bias)
    assert_close(logits, done.logits, atol=1e-5, rtol=1e-4)
    opened.close()


def test_notes_name_what_is_folded_into_w_u() -> None:
    for name, note in (
        ("granite, divided", "the model multiplies its logits by 0.25, which is folded into W_U"),
        ("cohere, multiplied", "multiplies its logits by 0.25"),
        ("llama", "the final norm is held at this text's own statistics"),
    ):
        opened = open_model(build(name))
        assert note in opened.unembedding().note
        opened.close()


def test_a_cap_on_the_logits_is_noted() -> None:
    more = {"final_logit_softcapping": 5.0, "head_dim": 8, "query_pre_attn_scalar": 8}
    model = tiny.build("Gemma2Config", "Gemma2ForCausalLM", **BASE, **more)
    opened = open_model(model)
    end = opened.unembedding()
    assert "caps its logits after W_U; attribution is of the logits before the cap" in end.note
    with torch.no_grad():
        done = opened.run({"input_ids": IDS}, residual=True)
        assert end.norm is not None
        before = end.norm(done.residual) @ end.weight.T
    assert_close(5 * torch.tanh(before / 5), done.logits, atol=1e-5, rtol=1e-4)
    opened.close()


def test_a_model_without_an_unembedding_is_refused_by_name() -> None:
    opened = open_model(tiny.build("LlamaConfig", "LlamaModel", **BASE))
    with pytest.raises(ModelError, match=r"this model has no unembedding: .*; a logit cannot be split over its heads"):
        opened.unembedding()
    opened.close()


def test_layers_between_the_residual_stream_and_w_u_are_refused() -> None:
    opened = open_model(tiny.build("BertConfig", "BertForMaskedLM", **tiny.SIZES))
    with pytest.raises(ModelError, match="other layers lie between the residual stream and W_U"):
        opened.unembedding()
    opened.close()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (torch.tensor([1.0, -2.0]), torch.tensor([3.0, -6.0]), 3.0),
        (torch.tensor([1.0, -2.0]), torch.tensor([0.0, 0.0]), 0.0),
        (torch.tensor([1.0, -2.0]), torch.tensor([3.0, -6.1]), None),
        (torch.zeros(2), torch.tensor([1.0, 1.0]), None),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("inf")]), None),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]), None),
        (torch.tensor([1.0, 2.0]).bfloat16(), torch.tensor([3.0, 6.03]).bfloat16(), 3.0),
    ],
)
def test_one_factor_or_none(a: Tensor, b: Tensor, expected: float | None) -> None:
    found = _ratio(a, b)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-2))


STATE, TABLE = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0)), nn.Embedding(6, 4)
NORM, HEAD, OTHER = nn.LayerNorm(4), nn.Linear(4, 6), nn.GELU()
LOGITS = torch.randn(1, 3, 6, generator=torch.Generator().manual_seed(1))
NOT_FOUND = UnembeddingPath(None, None, why_not="no matrix was found that turns its last states into logits")


@pytest.mark.parametrize(
    ("leaves", "tied", "expected"),
    [
        ([], False, NOT_FOUND),
        ([(HEAD, LOGITS)], False, UnembeddingPath(HEAD, None, note=NO_NORM)),
        ([(NORM, STATE), (HEAD, LOGITS)], False, UnembeddingPath(HEAD, NORM, note=HELD_NORM)),
        ([(NORM, STATE), (OTHER, STATE), (HEAD, LOGITS)], False, UnembeddingPath(HEAD, None, note=NO_NORM)),
        ([(OTHER, STATE), (NORM, STATE), (HEAD, LOGITS)], False, UnembeddingPath(HEAD, NORM, note=HELD_NORM)),
        ([(NORM, STATE), (HEAD, LOGITS + 1)], False, NOT_FOUND),
        ([(NORM, STATE), (OTHER, LOGITS)], False, NOT_FOUND),
        ([(OTHER, STATE), (NORM, STATE)], True, UnembeddingPath(TABLE, NORM, note=HELD_NORM)),
        ([(NORM, STATE)], False, NOT_FOUND),
        ([(NORM, STATE), (OTHER, STATE)], True, NOT_FOUND),
        ([(NORM, STATE[..., :3])], True, NOT_FOUND),
    ],
)
@torch.no_grad()
def test_the_last_matrix_is_a_linear_or_the_embedding_again(
    leaves: list[tuple[nn.Module, Tensor]], tied: bool, expected: UnembeddingPath
) -> None:
    logits = STATE @ TABLE.weight.T if tied else LOGITS
    assert find_last_matrix(leaves, logits, TABLE) == expected


def test_another_table_or_none_is_not_tied() -> None:
    for table in (None, nn.Embedding(7, 4), nn.Embedding(6, 5)):
        assert find_last_matrix([(NORM, STATE)], LOGITS, table) == NOT_FOUND


class Predicts(nn.Module):
    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = [found]

    def get_output_embeddings(self) -> Any:
        if isinstance(self.found[0], Exception):
            raise self.found[0]
        return self.found[0]


def test_a_model_that_does_not_name_its_last_matrix_has_none() -> None:
    assert _output_matrix(Predicts(HEAD)) is HEAD
    for model in (Predicts(NotImplementedError()), Predicts(AttributeError()), Predicts("head"), nn.Linear(2, 2)):
        assert _output_matrix(model) is None


def test_what_is_done_with_the_logits_is_nothing_a_factor_or_a_cap() -> None:
    assert _after(LOGITS, LOGITS.clone()) == (1.0, "")
    assert _after(LOGITS[:, :2], LOGITS) == (1.0, "")
    factor, note = _after(LOGITS, 3 * LOGITS)
    assert (round(factor, 6), note) == (3.0, "the model multiplies its logits by 3, which is folded into W_U")
    assert _after(LOGITS, LOGITS.tanh())[1].startswith("the model caps its logits after W_U")


def path_of(*leaves: tuple[nn.Module, Tensor, Tensor], blocks: list[Tensor], logits: Tensor) -> UnembeddingPath:
    calls = [LeafCall(f"part{at}", *leaf) for at, leaf in enumerate(leaves)]
    return find_unembedding(Predicts(HEAD), Trace(leaves=calls, blocks=blocks), logits)


def test_the_way_from_the_stream_to_the_logits_is_followed_back() -> None:
    stream, normed = torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    head, norm = (HEAD, normed, LOGITS), (NORM, stream, normed)
    unrelated = (OTHER, stream, torch.randn(1, 3, 4))
    bare = (HEAD, stream, LOGITS)
    assert path_of(norm, unrelated, head, blocks=[stream], logits=LOGITS) == UnembeddingPath(HEAD, NORM, 1.0, HELD_NORM)
    assert path_of(bare, blocks=[stream], logits=LOGITS) == UnembeddingPath(HEAD, None, 1.0, NO_NORM)
    assert path_of(bare, blocks=[stream], logits=2 * LOGITS).note.startswith("the model multiplies its logits by 2")
    assert path_of(norm, head, blocks=[stream], logits=2 * LOGITS).note == (
        f"{HELD_NORM}; the model multiplies its logits by 2, which is folded into W_U"
    )
    halved = path_of(norm, (HEAD, normed / 2, LOGITS), blocks=[stream], logits=4 * LOGITS)
    assert (halved.norm, round(halved.scale, 6)) == (NORM, 2.0)
    for leaves, blocks in (((norm, head), [normed]), ((unrelated, head), [stream]), ((norm, head), [stream[:, :2]])):
        found = path_of(*leaves, blocks=blocks, logits=LOGITS)
        assert found.why_not == "other layers lie between the residual stream and W_U"
        assert found.first is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1.0, 6.0])
def test_a_cap_is_told_from_a_factor_in_half_precision_too(dtype: torch.dtype, size: float) -> None:
    drawn = size * torch.randn(2, 12, 4096, generator=torch.Generator().manual_seed(0))
    logits = drawn.clamp(-4 * size, 4 * size).to(dtype)
    assert _after(logits, (30 * torch.tanh(logits / 30)).to(dtype)) == (1.0, CAPPED)
    for factor in (0.3, 0.0625, 2.5, 1 / 13, 1 / 48**0.5):
        found, note = _after(logits, logits * factor)
        assert found == pytest.approx(factor, rel=1e-3)
        assert "multiplies its logits" in note
