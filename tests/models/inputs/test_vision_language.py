"""Vision-language models: image tokens and words in one pattern, equal to the model's own pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.models import tiny
from tests.models.media import llava_processor, opened, picture
from transformers import Qwen2VLImageProcessorPil, Qwen2VLProcessor

import headscope
from headscope.models.inputs.media import MediaProcessors, Picture, media_tensors
from headscope.models.inputs.media_positions import PatchGrid, ShownPicture, listed_grid, picture_read
from headscope.scope import Scope

TEXT = "the horse crossed"
AROUND = "<|vision_start|>", "<|vision_end|>"


@pytest.fixture(scope="module")
def llava() -> Any:
    yield from opened(tiny.llava(), llava_processor())


def qwen_processor() -> Any:
    """Without its video processor, which needs torchvision."""
    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [*AROUND, "<|image_pad|>", "<|video_pad|>"]})
    made = Qwen2VLProcessor.__new__(Qwen2VLProcessor)
    made.image_processor = Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=112 * 112)
    made.tokenizer, made.video_processor, made.chat_template = tokenizer, None, None
    for kind in ("image", "video"):
        setattr(made, f"{kind}_token", f"<|{kind}_pad|>")
        setattr(made, f"{kind}_token_id", tokenizer.convert_tokens_to_ids(f"<|{kind}_pad|>"))
    return made


def test_image_tokens_and_words_stand_in_one_pattern(llava: Scope) -> None:
    look = llava.look((picture(), TEXT))
    made = llava_processor()(images=picture(), text=f"<image>\n{TEXT}", return_tensors="pt")
    same = tiny.llava()
    same.set_attn_implementation("eager")
    with torch.no_grad():
        own = same(**made, output_attentions=True)
    torch.testing.assert_close(look.logits, own.logits[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(look.pattern("1.2"), own.attentions[1][0, 2], rtol=1e-4, atol=1e-6)
    names = [token.text for token in look.tokens]
    assert names[:2] == ["patch 0,0", "patch 0,1"]
    assert names[15:] == ["patch 3,3", "the", "horse", "crossed"]
    assert [token.text for token in look.key_tokens("vision.1")][:2] == ["CLS", "patch 0,0"]
    assert look.why("1.2", key="patch 0,1").to_dict()


def test_a_patch_is_not_a_copy_of_another(llava: Scope) -> None:
    """Image tokens share one id; only the words' copies count as duplicates."""
    look = llava.look((picture(), "the horse crossed the"))
    pattern = look.pattern("0.1")
    assert float(look.mean_answers("0")["duplicate"][1]) == pytest.approx(float(pattern[19, 16]), abs=1e-6)
    assert "duplicate" not in llava.look((picture(), TEXT)).mean_answers("0")


def test_a_list_of_patches_is_put_together_again() -> None:
    """Qwen2-VL is given patches in squares of four; the picture and its tokens' grid come out of them."""
    processor = qwen_processor()
    wide = picture(112, 84)
    made = media_tensors(
        Picture(wide), TEXT, MediaProcessors(processor.image_processor, None, processor),
        frozenset({"input_ids", "pixel_values", "image_grid_thw"}), "a model",
    )  # fmt: skip
    first = processor.tokenizer.convert_ids_to_tokens(made["input_ids"][0].tolist())
    assert first == [AROUND[0], *["<|image_pad|>"] * 12, AROUND[1], "the", "horse", "crossed"]
    assert listed_grid(made) == PatchGrid(0, 6, 8)
    shown = picture_read(made, processor.image_processor)
    assert isinstance(shown, ShownPicture)
    assert np.abs(shown.pixels.astype(int) - np.asarray(wide).astype(int)).max() <= 1


def test_squares_of_patches_are_named_where_they_stand() -> None:
    processor = qwen_processor()
    ids = processor.tokenizer.convert_tokens_to_ids
    text = {**tiny.SIZES, "num_key_value_heads": 2, "max_position_embeddings": 128}
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2}
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    model = tiny.build(
        "Qwen2VLConfig", "Qwen2VLForConditionalGeneration", vision_config=vision, image_token_id=ids("<|image_pad|>"),
        text_config={**text, "rope_parameters": rope},
        video_token_id=ids("<|video_pad|>"), vision_start_token_id=ids(AROUND[0]), vision_end_token_id=ids(AROUND[1]),
    )  # fmt: skip
    wide = picture(112, 84)
    with headscope.load(model, processor) as scope:
        look = scope.look((wide, TEXT))
        names = [token.text for token in look.tokens]
        assert names[:3] == [AROUND[0], "patch 0,0", "patch 0,1"]
        assert names[12] == "patch 2,3"
        assert [token.text for token in look.query_tokens("vision.0")][:4] == [
            "patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1",
        ]  # fmt: skip
    made = processor(images=wide, text="".join([AROUND[0], "<|image_pad|>", AROUND[1], TEXT]), return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(look.logits, model(**made).logits[0], rtol=1e-4, atol=1e-5)
