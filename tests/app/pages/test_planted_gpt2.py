"""GPT-2's published heads, checked on a model of its shape in which some of them were planted."""

from __future__ import annotations

import torch
import transformers

import headscope
from headscope.app.pages.microscope import Session

SIZE, VOCABULARY, CONTEXT = 32, 400, 128
TOKEN, PLACE, BEFORE = (slice(SIZE * part, SIZE * (part + 1)) for part in range(3))


def planted() -> transformers.GPT2LMHeadModel:
    """12 layers of 12 heads: 4.11 attends one token back and carries its token, which 5.5 looks for and copies on."""
    sizes = {"n_embd": 12 * SIZE, "vocab_size": VOCABULARY, "n_positions": CONTEXT}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    for norm in (layer for layer in model.modules() if isinstance(layer, torch.nn.LayerNorm)):
        torch.nn.init.ones_(norm.weight)
    wte, wpe = model.transformer.wte.weight.data, model.transformer.wpe.weight.data
    wte[:, TOKEN] = torch.nn.functional.normalize(torch.randn(VOCABULARY, SIZE), dim=1)
    frequencies = torch.linspace(0.2, 3.0, SIZE // 2)
    angles = torch.arange(CONTEXT)[:, None] * frequencies
    wpe[:, PLACE] = torch.cat((angles.cos(), angles.sin()), 1) / (SIZE // 2) ** 0.5
    cos, sin = frequencies.cos().diag(), frequencies.sin().diag()
    back = torch.cat((torch.cat((cos, -sin), 1), torch.cat((sin, cos), 1)))  # of place i, the code of place i − 1
    eye = torch.eye(SIZE)

    def plant(layer: int, head: int, query: slice, key: slice, turn: torch.Tensor, into: slice) -> None:
        attention, own = model.transformer.h[layer].attn, slice(head * SIZE, (head + 1) * SIZE)
        into_qkv = attention.c_attn.weight.data.view(12 * SIZE, 3, 12 * SIZE)
        into_qkv[query, 0, own], into_qkv[key, 1, own], into_qkv[TOKEN, 2, own] = 8 * turn, eye, eye
        attention.c_proj.weight.data[own, into] = eye / 8

    plant(4, 11, PLACE, PLACE, back, BEFORE)
    plant(5, 5, TOKEN, BEFORE, eye, TOKEN)
    return model


def test_published_heads_are_found_where_they_were_planted() -> None:
    torch.manual_seed(0)
    with headscope.load(planted(), name="gpt2") as scope:
        session = Session(scope)
        before = {(head.outcome, head.why) for claim in session.featured() for head in claim.heads}
        assert before == {("not tested", "")}, "the page says: not tested yet"
        assert session.test_heads().state == "tested"
        found = {(claim.role, head.head): head for claim in session.featured() for head in claim.heads}
    assert found["previous token", "4.11"].outcome == "agrees"
    assert found["previous token", "2.2"].outcome == "differs"
    assert found["induction", "5.5"].outcome == "agrees"
    assert found["induction", "6.9"].outcome == "differs"
    assert (found["name mover", "9.9"].outcome, found["name mover", "9.9"].score) == ("not tested", None)
    assert "reads no text" in found["name mover", "9.9"].why
