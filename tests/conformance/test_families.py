"""Every claim holds for a cross-section of model families. All of them: ``python -m tests.conformance.sweep``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.models.inputs.dummy_inputs import probe_inputs
from headscope.models.loading import open_model
from headscope.models.selfcheck import own_logits, relative_difference
from tests.conformance.claims import build, verify
from tests.conformance.families import Job, jobs

# What each family has that others do not.
CROSS_SECTION = {
    "LlamaForCausalLM": "plain GQA",
    "GPT2LMHeadModel": "fused Conv1D",
    "GPTNeoXForCausalLM": "projections interleaved by head",
    "OPTForCausalLM": "scale 1, biases",
    "MistralForCausalLM": "a window",
    "Qwen2ForCausalLM": "biases on q, k, v",
    "Qwen3ForCausalLM": "a norm on q and k",
    "Gemma2ForCausalLM": "softcap, windows on every other layer",
    "Gemma3ForCausalLM": "two rotations",
    "GptOssForCausalLM": "sinks",
    "MiMoV2FlashForCausalLM": "sinks on some layers, values of their own width",
    "GraniteForCausalLM": "logits divided",
    "CohereForCausalLM": "parallel layers, logits multiplied",
    "PhiForCausalLM": "part of a head rotated",
    "DeepseekV3ForCausalLM": "a latent for keys and values",
    "DeepseekV32ForCausalLM": "keys selected by an indexer",
    "MixtralForCausalLM": "experts",
    "Qwen3NextForCausalLM": "gated heads, linear layers between",
    "JambaForCausalLM": "Mamba layers between",
    "BambaForCausalLM": "Mamba 2 layers between",
    "BitNetForCausalLM": "a norm over all heads before W_O",
    "DiffLlamaForCausalLM": "two calls per layer",
    "DogeForCausalLM": "a mask of its own for each head",
    "StableLmForCausalLM": "position ids passed on",
    "BloomForCausalLM": "its own eager attention",
    "FalconForCausalLM": "its own call of sdpa",
    "XLNetLMHeadModel": "einsum, positions as a second stream",
    "MambaForCausalLM": "refused: no attention",
    "BertForMaskedLM": "both directions",
    "RobertaForMaskedLM": "positions that start at 2",
    "ModernBertForMaskedLM": "local and global layers",
    "AlbertForMaskedLM": "one layer many times",
    "DistilBertForMaskedLM": "a small encoder",
    "ElectraForMaskedLM": "embeddings narrower than the model",
    "T5ForConditionalGeneration": "position bias, cross-attention",
    "BartForConditionalGeneration": "cross-attention",
    "MarianMTModel": "cross-attention, sinusoids",
    "PegasusForConditionalGeneration": "cross-attention",
    "T5GemmaForConditionalGeneration": "softcap in an encoder and a decoder",
    "WhisperForConditionalGeneration": "sound, cross-attention",
    "Wav2Vec2ForCTC": "sound",
    "Wav2Vec2BertForCTC": "sound, relative positions",
    "ViTForImageClassification": "pictures",
    "SwinForImageClassification": "windows of patches, a bias for each head",
    "Dinov2ForImageClassification": "pictures",
    "CLIPModel": "two towers",
    "SiglipModel": "a pooling head that is not observed",
    "LlavaForConditionalGeneration": "the text side of a picture model",
    "MiniMaxM3SparseForConditionalGeneration": "blocks of keys selected by an indexer",
}
REFUSED = {"MambaForCausalLM"}
MOST_UNLIKE = REFUSED | {  # each other; make test-all verifies the whole cross-section
    "LlamaForCausalLM", "GPT2LMHeadModel", "GPTNeoXForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM",
    "CohereForCausalLM", "DeepseekV3ForCausalLM", "MixtralForCausalLM", "Qwen3NextForCausalLM", "BitNetForCausalLM",
    "BertForMaskedLM", "T5ForConditionalGeneration", "WhisperForConditionalGeneration",
    "ViTForImageClassification", "SwinForImageClassification", "CLIPModel",
}  # fmt: skip
JOBS = {job.kind: job for job in jobs()}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in MOST_UNLIKE else pytest.mark.slow) for kind in CROSS_SECTION]
)
def test_family(kind: str) -> None:
    verdict = verify(JOBS[kind])
    expected = "refused" if kind in REFUSED else "verified"
    assert (verdict.state, verdict.why if verdict.state != expected else "") == (expected, "")
    if kind in REFUSED:
        assert "no attention was found" in verdict.why


@pytest.mark.filterwarnings("ignore")
def test_wrong_attention_is_detected() -> None:
    """The comparison detects a mask that is lost, and scores that are halved."""
    job: Job = JOBS["LlamaForCausalLM"]
    opened = open_model(build(job))
    inputs = probe_inputs(opened.model, 40)[0]
    own = own_logits(opened.model, inputs, {"use_cache": False})
    assert own is not None

    def unmasked(site: str, call: Call) -> Tensor:
        from dataclasses import replace

        from headscope.attention.masks import full

        return plain(replace(call, scores=replace(call.scores, mask=full())))

    def halved(site: str, call: Call) -> Tensor:
        from dataclasses import replace

        return plain(replace(call, q=call.q / 2))

    with torch.no_grad():
        for change in (unmasked, halved):
            assert relative_difference(opened.run(inputs, change).logits, own) > 1e-2
    opened.close()
