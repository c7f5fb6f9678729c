"""Circuits are the products of the weights, GQA-correct, and their norms and eigenvalues need no large matrix."""

import pytest
import torch

from headscope.heads.explain.qk_ov_circuits import Factored, composition, copying, ov, qk
from headscope.scope import Scope


def test_factored_matrices_agree_with_dense_ones() -> None:
    torch.manual_seed(0)
    a, b = Factored(torch.randn(20, 3), torch.randn(3, 20)), Factored(torch.randn(20, 4), torch.randn(4, 20))
    torch.testing.assert_close(a.then(b).dense(), a.dense() @ b.dense(), atol=1e-4, rtol=1e-4)
    assert a.norm() == pytest.approx(float(a.dense().norm()), rel=1e-5)
    torch.testing.assert_close(a.singular_values(), torch.linalg.svdvals(a.dense())[:3], atol=1e-4, rtol=1e-4)
    dense = torch.linalg.eigvals(a.dense())
    largest = dense[dense.abs().argsort(descending=True)[:3]]
    assert float(a.eigenvalues().real.sum()) == pytest.approx(float(largest.real.sum()), abs=1e-3)


def test_qk_and_ov_are_slices_of_the_models_own_weights(llama: Scope) -> None:
    layer = llama.model.model.model.layers[1].self_attn
    query = layer.q_proj.weight[4 * 8 : 5 * 8].T
    key, value = layer.k_proj.weight[2 * 8 : 3 * 8].T, layer.v_proj.weight[2 * 8 : 3 * 8].T
    out = layer.o_proj.weight[:, 4 * 8 : 5 * 8].T
    torch.testing.assert_close(qk(llama.model, "1.4").dense(), query @ key.T)
    torch.testing.assert_close(ov(llama.model, "1.4").dense(), value @ out)


@pytest.mark.parametrize("through", ["Q", "K", "V"])
def test_composition_is_the_norm_of_the_product_over_the_product_of_norms(llama: Scope, through: str) -> None:
    score = composition(llama.model, "0.1", "2.3", through)
    circuit = {
        "Q": qk(llama.model, "2.3").dense(),
        "K": qk(llama.model, "2.3").dense().T,
        "V": ov(llama.model, "2.3").dense(),
    }
    written, read = ov(llama.model, "0.1").dense(), circuit[through]
    assert score == pytest.approx(float((written @ read).norm() / (written.norm() * read.norm())), rel=1e-4)
    assert 0 < score < 1


def test_a_head_that_copies_scores_one_and_its_opposite_minus_one(llama: Scope) -> None:
    model = llama.model.model
    attention = model.model.layers[0].self_attn
    width = 8
    around = model.lm_head.weight.T @ model.model.embed_tokens.weight
    with torch.no_grad():
        values = torch.linalg.qr(torch.randn(48, width)).Q
        attention.v_proj.weight[:width] = values.T
        # W_O := (W_U W_E V)ᵀ makes the small product W_O (W_U W_E) W_V positive definite.
        attention.o_proj.weight[:, :width] = around @ values
    assert copying(llama.model, "0.0") == pytest.approx(1.0, abs=1e-3)
    with torch.no_grad():
        attention.o_proj.weight[:, :width] *= -1
    assert copying(llama.model, "0.0") == pytest.approx(-1.0, abs=1e-3)
