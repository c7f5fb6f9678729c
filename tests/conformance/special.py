"""Families whose tiny config needs more than sizes by name."""

from __future__ import annotations

from typing import Any

_THREE_AXES = {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "mrope_section": [2, 3, 3]}}
_HALF_TURNED = {
    "rope_parameters": {
        "rope_theta": 10000.0, "rope_type": "default", "mrope_section": [1, 1, 2], "partial_rotary_factor": 0.5,
    }
}  # fmt: skip

CHANGES: dict[str, dict[str, Any]] = {
    "xmod": {"default_language": "en_XX"},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "bamba": {"attn_layer_indices": [1]},
    "esmc": {"num_key_value_heads": 4},
    "esm": {"pad_token_id": 0, "mask_token_id": 5},
    "zaya": {"num_experts_per_tok": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "nemotron": {"num_key_value_heads": 2},
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "paddleocr_vl", "glm4v", "glm46v", "glm_ocr", "glmga"), {"text_config": _THREE_AXES}),
    "glm4v_moe": {"text_config": _HALF_TURNED},
    "qwen2_5_omni_thinker": {"text_config": _THREE_AXES},
    **dict.fromkeys(("swin", "donut-swin"), {"window_size": 4, "image_size": 32, "patch_size": 4, "depths": [2, 2], "num_heads": [2, 4], "embed_dim": 16}),
}
