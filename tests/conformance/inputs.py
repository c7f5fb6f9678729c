"""Probe inputs for families whose inputs headscope does not guess."""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.models.inputs.dummy_inputs import tokens
from tests.conformance.families import Job

BATCH = 2


def probe_for(model: torch.nn.Module, job: Job, length: int = 12, target: int = 7) -> dict[str, Tensor] | None:
    """Inputs by family; None where headscope guesses them."""
    generator = torch.Generator().manual_seed(0)
    if job.kind in ("MusicgenForCausalLM", "MusicgenMelodyForCausalLM"):
        return {"input_ids": torch.randint(3, 150, (4 * BATCH, length), generator=generator)}
    if job.model_type in ("siglip2", "siglip2_vision_model"):
        patches = {
            "pixel_values": torch.randn(BATCH, 16, 192, generator=generator),
            "pixel_attention_mask": torch.ones(BATCH, 16, dtype=torch.long),
            "spatial_shapes": torch.tensor([[4, 4]] * BATCH),
        }
        return (
            patches
            if "Model" not in job.kind or "Vision" in job.kind
            else {"input_ids": tokens(model.config, length), **patches}
        )
    if job.model_type.startswith("granite_speech5"):
        return {"input_features": torch.randn(BATCH, 96, 64, generator=generator)}
    return None
