"""A published graph computes what the model computes: predictions, patterns and edits, at every length."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers
from tests.app.conftest import WORDS, small_model, word_tokenizer
from tests.app.publish.conftest import copied, unchecked_shapes, written

import headscope
from headscope.app.export.saved_explanations import stored_explanations
from headscope.app.pages.microscope import Session as PageSession
from headscope.app.publish.graph import Exported, ExportError, export
from headscope.app.publish.site import store_verified, write_model
from headscope.app.publish.verify import ASKED_FOR, TOLERANCE, GraphSession, verify
from headscope.app.publish.weights import FILE, Stored, split_card, store
from headscope.app.wire import unpack
from headscope.scope import Scope

pytestmark = pytest.mark.slow

TEXT = " ".join(WORDS)


def gpt2() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(vocab_size=len(WORDS) + 1, n_embd=32, n_layer=1, n_head=4, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


def gemma() -> transformers.PreTrainedModel:
    config = transformers.Gemma3TextConfig(
        vocab_size=len(WORDS) + 1, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=4, layer_types=["sliding_attention"],
        max_position_embeddings=64, attn_logit_softcapping=None,
    )  # fmt: skip
    return transformers.Gemma3ForCausalLM(config)


def test_the_half_precision_graph_is_the_model_with_its_weights_rounded(folder: Path, exported: Exported) -> None:
    model = small_model()
    for weight in model.parameters():
        weight.data = weight.data.half().float()
    with headscope.load(model, word_tokenizer()) as rounded:
        found = verify(folder, rounded, exported)
    assert max(found.probability, found.weight, found.edited) < 1e-5
    assert found.texts == 3


def test_the_float32_graph_equals_the_model_to_1e_5(scope: Scope, exported: Exported, tmp_path: Path) -> None:
    stored = store(copied(exported), scope.model, "float32")
    found = verify(written(stored, tmp_path), scope, exported, TOLERANCE["float32"], [TEXT, "lamp", "river lamp"])
    assert max(found.probability, found.weight, found.edited) < 1e-5


def bert() -> transformers.PreTrainedModel:
    config = transformers.BertConfig(
        vocab_size=len(WORDS) + 1, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=64,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


def qwen() -> transformers.PreTrainedModel:
    config = transformers.Qwen3Config(
        vocab_size=len(WORDS) + 1, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.Qwen3ForCausalLM(config)


MORE_WRITERS = "site 0 reads more than one embedding, heads and MLPs through its own norm"
NORMED_QUERIES = "site 0: more than a rotation lies between its projection and its q"


@pytest.mark.parametrize(
    ("family", "no_split", "traced"),
    [
        (gpt2, MORE_WRITERS, True),
        (gemma, NORMED_QUERIES, True),
        (qwen, NORMED_QUERIES, True),
        (bert, MORE_WRITERS, False),
    ],
    ids=["gpt2", "gemma", "qwen", "bert"],
)
def test_other_families_go_through_the_same_export(
    family: Callable[[], transformers.PreTrainedModel], no_split: str, traced: bool, tmp_path: Path
) -> None:
    """Verified like any model. Their scores are not split in the browser, which is said; an example's are stored."""
    with headscope.load(family().eval(), word_tokenizer()) as scope:
        with unchecked_shapes():
            exported = export(scope.model)
        stored = store(exported.graph, scope.model)
        found = verify(written(stored, tmp_path), scope, exported, texts=[TEXT])
        split, _ = split_card(scope.model, exported, stored)
        ((text, packed),) = stored_explanations(PageSession(scope), [TEXT])
    assert exported.longest == 64
    assert found.passed, str(found)
    assert split["why_not"] == no_split
    explained = json.loads(packed)
    assert text == TEXT
    assert (explained["trace"] is not None) == traced
    assert explained["arrows"]
    assert all(arrow["error"] < 1e-4 for arrow in explained["arrows"].values())


def test_a_query_that_loses_its_only_key_attends_to_nothing(folder: Path, scope: Scope, exported: Exported) -> None:
    session = GraphSession(folder, scope, exported)
    cut = session.run([1, 2, 3], cuts=np.array([[1, 2, 0, 0]]))
    assert np.all(cut["z 1"][2, 0] == 0)
    assert np.all(cut["z 1"][2, 1] != 0)


def test_an_offset_is_added_to_what_a_head_delivers(folder: Path, scope: Scope, exported: Exported) -> None:
    session = GraphSession(folder, scope, exported)
    offsets = session.nothing["offsets"].copy()
    offsets[1, 3] = 0.5
    plain, moved = session.run([1, 2, 3])["z 1"], session.run([1, 2, 3], offsets=offsets)["z 1"]
    np.testing.assert_allclose(moved[3], plain[3] + 0.5, atol=1e-6)
    np.testing.assert_allclose(moved[2], plain[2], atol=1e-6)


def test_a_wrong_graph_does_not_pass(stored: Stored, scope: Scope, exported: Exported, tmp_path: Path) -> None:
    changed = np.frombuffer(stored.weights, np.float16).copy()
    changed *= np.float16(1.05)
    written(stored, tmp_path)
    (tmp_path / FILE).write_bytes(changed.tobytes())
    found = verify(tmp_path, scope, exported, texts=[TEXT])
    assert not found.passed
    assert "not as in Python" in str(found)


def test_the_file_of_weights_holds_each_matrix_once_where_the_page_finds_it(stored: Stored, scope: Scope) -> None:
    parameters = sum(weight.numel() for weight in scope.model.model.parameters())
    assert len(stored.weights) < 2 * parameters + 64 * 40
    halves = np.frombuffer(stored.weights, np.float16)
    for name, wanted in (
        ("W_O 1", scope.model.output_weight("1").weight.flatten(0, 1)),
        ("W_U", scope.model.unembedding().weight),
    ):
        table = stored.tables[name]
        begins = table.offset // 2
        found = halves[begins : begins + wanted.numel()].reshape(table.shape)
        found = found.T if table.transposed else found
        np.testing.assert_allclose(found, wanted.detach().numpy(), atol=1e-3)


def test_half_precision_that_is_asked_for_is_published_with_its_error(
    scope: Scope, exported: Exported, tmp_path: Path
) -> None:
    _, found = store_verified(scope, exported, tmp_path, "float16")
    assert TOLERANCE["float16"] < max(found.probability, found.weight, found.edited) < ASKED_FOR
    assert str(found).startswith("near Python's: on 3 texts")


def test_a_model_is_described_next_to_its_graph(scope: Scope, exported: Exported, tmp_path: Path) -> None:
    verified = write_model(scope, exported, tmp_path)
    card = unpack((tmp_path / "model.bin").read_bytes()).values
    assert card["texts"][1] == "the"
    assert card["model"]["context"] == 1024
    assert card["scores"]["1"]["scale"] == pytest.approx(8**-0.5)
    # random weights are changed too much by half precision, and are kept as they are
    assert verified.passed
    assert card["dtype"] == "weights in float32"
    assert json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]["the"] == 1


def test_what_cannot_be_exported_is_rejected() -> None:
    config = transformers.BloomConfig(vocab_size=17, hidden_size=16, n_layer=1, n_head=2)
    bloom = transformers.BloomForCausalLM(config).eval()
    with headscope.load(bloom, word_tokenizer()) as scope, pytest.raises(ExportError, match="not a transformers model"):
        export(scope.model)
    with headscope.load(small_model(1)) as scope, pytest.raises(ExportError, match=r"has no tokenizer\.json"):
        export(scope.model)
