"""Circuits are the products of the weights, GQA-correct, and their norms and eigenvalues need no large matrix."""

import pytest
import torch
import transformers

import headscope
from headscope import Head
from headscope.heads.explain.qk_ov_circuits import (
    FactoredMatrix,
    Through,
    composition,
    ov,
    qk,
)
from headscope.scope import Scope


def test_factored_matrices_agree_with_dense_ones() -> None:
    torch.manual_seed(0)
    a, b = (
        FactoredMatrix(torch.randn(20, 3), torch.randn(3, 20)),
        FactoredMatrix(torch.randn(20, 4), torch.randn(4, 20)),
    )
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


@pytest.mark.parametrize("through", ["q", "k", "v"])
def test_composition_is_the_norm_of_the_product_over_the_product_of_norms(llama: Scope, through: str) -> None:
    score = composition(llama.model, "0.1", "2.3", through)
    circuit = {
        "q": qk(llama.model, "2.3").dense(),
        "k": qk(llama.model, "2.3").dense().T,
        "v": ov(llama.model, "2.3").dense(),
    }
    written, read = ov(llama.model, "0.1").dense(), circuit[through]
    assert score == pytest.approx(float((written @ read).norm() / (written.norm() * read.norm())), rel=1e-4)
    assert 0 < score < 1


@pytest.mark.parametrize("through", ["q", "k", "v"])
def test_all_pairs_at_once_are_the_pairs_one_by_one(scope: Scope, through: Through) -> None:
    found = scope.compositions(through)
    some = [found.heads.index(head) for head in (Head("0", 0), Head("0", 3), Head("1", 1), Head("1", 2))]
    for writer in some:
        for reader in some:
            pair = found.heads[writer], found.heads[reader]
            one = scope.composition(*pair, through) if pair[0].site < pair[1].site else 0.0
            assert float(found.scores[writer, reader]) == pytest.approx(one, rel=1e-4)
    strongest = found.strongest(3)
    assert [score for *_, score in strongest] == pytest.approx(found.scores.flatten().topk(3).values.tolist())
    writer, reader, score = strongest[0]
    assert scope.composition(writer, reader, through) == pytest.approx(score, rel=1e-4)


def test_pairs_that_share_no_stream_have_no_score() -> None:
    """What an encoder writes is read by the decoder's cross-attention, through its keys and values only."""
    with headscope.load(small_t5()) as scope:
        keys, queries = scope.compositions("k"), scope.compositions("q")
        sites = [head.site for head in keys.heads]
        for index, writer in enumerate(sites):
            for column, reader in enumerate(sites):
                encoder, cross = writer.startswith("encoder"), reader.endswith("cross")
                if encoder and reader.startswith("decoder"):
                    assert bool(keys.scores[index, column] > 0) == cross
                    assert queries.scores[index, column] == 0


def small_t5() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, decoder_start_token_id=0)).eval()
