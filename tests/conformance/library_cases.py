"""Models of libraries outside transformers, small and random, with inputs for one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """One model: its library, its name there, and a function that makes it and what it is called with."""

    library: str
    name: str
    make: Callable[[], tuple[nn.Module, Any]]


def cases() -> Iterator[Case]:
    """All cases, library by library."""
    for make in (_torch, _nano, _diffusers, _vit_pytorch, _whisper, _open_clip, _more, _timm, _torchvision):
        yield from make()


def _draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _torch() -> Iterator[Case]:
    from tests.models.any_torch.whole_modules.test_modules import CASES

    for name, (make, inputs) in CASES.items():
        if "nanoGPT" not in name and "ViT" not in name:
            yield Case("torch.nn", name, lambda make=make, inputs=inputs: (make(), inputs))


def _nano() -> Iterator[Case]:
    from tests.models.any_torch.modules import Gpt, ids

    for eager in (False, True):
        inputs = {"idx": ids(), "targets": ids()}
        form = "eager" if eager else "sdpa"
        yield Case("nanoGPT's form", form, lambda eager=eager, inputs=inputs: (Gpt(eager=eager), inputs))


def _more() -> Iterator[Case]:
    from tests.conformance.more_cases import MORE
    from tests.conformance.unseen_cases import UNSEEN

    for library, made in {**MORE, **UNSEEN}.items():
        for name, make in made.items():
            yield Case(library, name, make)


# Names and picture sizes; the first take theirs as an argument, and are two layers deep.
SHALLOW = {
    "vit_tiny_patch16_224": 96, "deit_tiny_distilled_patch16_224": 96, "deit3_small_patch16_224": 96,
    "beit_base_patch16_224": 96, "beitv2_base_patch16_224": 96, "eva02_tiny_patch14_224": 98, "flexivit_small": 96,
    "vit_small_patch14_dinov2": 98, "vit_base_patch16_siglip_224": 96, "vit_base_patch16_clip_224": 96,
    "vit_small_patch16_rope_reg1_gap_256": 96, "vit_relpos_small_patch16_224": 96,
}  # fmt: skip
WHOLE = {
    "pvt_v2_b0": 96, "xcit_nano_12_p16_224": 96, "levit_128s": 224, "mobilevit_xxs": 128, "mobilevitv2_050": 128,
    "efficientformer_l1": 224, "edgenext_xx_small": 128, "twins_svt_small": 112, "twins_pcpvt_small": 112,
    "davit_tiny": 112, "convit_tiny": 224, "crossvit_tiny_240": 240, "visformer_tiny": 224, "coatnet_nano_rw_224": 224,
    "cait_xxs24_224": 224, "resnet50_clip": 224, "hiera_tiny_224": 224, "nextvit_small": 128,
    "mobilenetv4_hybrid_medium": 128, "swin_tiny_patch4_window7_224": 224, "mvitv2_tiny": 224, "gcvit_xxtiny": 224,
    "vitamin_small_224": 224, "maxvit_pico_rw_256": 256, "nest_tiny": 224, "volo_d1_224": 224, "botnet26t_256": 256,
    "swinv2_tiny_window8_256": 256, "swinv2_cr_tiny_224": 224, "tnt_s_legacy_patch16_224": 224, "coat_tiny": 224,
    "efficientvit_m0": 224, "halonet26t": 256,
}  # fmt: skip


def _timm() -> Iterator[Case]:
    import timm
    from timm.layers import set_fused_attn

    def build(name: str, size: int, eager: bool) -> tuple[nn.Module, Tensor]:
        shallow = {"depth": 2, "img_size": size} if name in SHALLOW else {}
        try:
            set_fused_attn(not eager)
            model = timm.create_model(name, num_classes=10, **shallow)
        finally:
            set_fused_attn(True)
        _redraw(model)
        return model, _draw(1, 3, size, size)

    known = set(timm.list_models())
    for name, size in {**SHALLOW, **WHOLE}.items():
        if name not in known:
            continue
        yield Case("timm", name, lambda name=name, size=size: build(name, size, False))
        if name in ("vit_tiny_patch16_224", "beit_base_patch16_224"):
            yield Case("timm", f"{name} (eager)", lambda name=name, size=size: build(name, size, True))


def _torchvision() -> Iterator[Case]:
    from torchvision import models

    picture = _draw(1, 3, 64, 64)
    vit = {
        "image_size": 64,
        "patch_size": 16,
        "num_layers": 2,
        "num_heads": 4,
        "hidden_dim": 32,
        "mlp_dim": 48,
        "num_classes": 10,
    }
    yield Case("torchvision", "VisionTransformer", lambda: (_head(models.VisionTransformer(**vit)), picture))
    for name in ("swin_t", "swin_v2_t"):
        yield Case(
            "torchvision", name, lambda name=name: (getattr(models, name)(num_classes=10), _draw(1, 3, 224, 224))
        )
    yield Case("torchvision", "maxvit_t", lambda: (models.maxvit_t(num_classes=10), _draw(1, 3, 224, 224)))


def _head(model: nn.Module) -> nn.Module:
    """torchvision sets the last layer to zero, so that nothing would move the output."""
    _redraw(model)
    return model


def _redraw(model: nn.Module) -> None:
    """Draw weights that were set to zero or nearly so, since nothing would move the output (LayerScale, heads)."""
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        small = float(parameter.detach().abs().max()) < 1e-3
        if small and parameter.is_floating_point():
            scale = 0.5 if parameter.ndim == 1 else parameter[0].numel() ** -0.5
            parameter.data = torch.randn(parameter.shape, generator=generator) * scale


def _diffusers() -> Iterator[Case]:
    import diffusers

    from tests.conformance.diffusers_cases import DIFFUSERS

    for name, make in DIFFUSERS.items():
        yield Case("diffusers", name, lambda make=make: make(diffusers))


def _vit_pytorch() -> Iterator[Case]:
    import vit_pytorch
    from vit_pytorch.cvt import CvT
    from vit_pytorch.deepvit import DeepViT
    from vit_pytorch.levit import LeViT
    from vit_pytorch.simple_vit import SimpleViT

    size = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 48}
    picture = _draw(1, 3, 32, 32)
    yield Case("vit-pytorch", "ViT", lambda: (vit_pytorch.ViT(**size, dim_head=8), picture))
    yield Case("vit-pytorch", "SimpleViT", lambda: (SimpleViT(**size, dim_head=8), picture))
    yield Case("vit-pytorch", "DeepViT (heads mixed)", lambda: (DeepViT(**size, dim_head=8), picture))
    yield Case(
        "vit-pytorch", "CvT", lambda: (CvT(num_classes=10, s1_emb_dim=16, s2_emb_dim=32, s3_emb_dim=48), picture)
    )
    levit = {
        "image_size": 64,
        "num_classes": 10,
        "stages": 2,
        "dim": (32, 48),
        "depth": 1,
        "heads": (2, 3),
        "mlp_mult": 2,
    }
    yield Case("vit-pytorch", "LeViT", lambda: (LeViT(**levit), _draw(1, 3, 64, 64)))


def _whisper() -> Iterator[Case]:
    from whisper import model as whisper

    sizes = whisper.ModelDimensions(8, 25, 32, 4, 2, 97, 20, 32, 4, 2)

    def build(sdpa: bool) -> tuple[nn.Module, Any]:
        whisper.MultiHeadAttention.use_sdpa = sdpa
        model = whisper.Whisper(sizes)
        model.decoder.positional_embedding.data = 0.1 * _draw(20, 32)  # the library leaves it as the memory was
        _redraw(model)
        return model, {"mel": _draw(1, 8, 50), "tokens": torch.arange(3, 10)[None]}

    yield Case("openai-whisper", "Whisper", lambda: build(True))


def _open_clip() -> Iterator[Case]:
    from open_clip.model import CLIP

    vision = {"image_size": 32, "patch_size": 8, "layers": 2, "width": 32, "head_width": 8}
    text = {"context_length": 12, "vocab_size": 97, "width": 32, "heads": 4, "layers": 2}

    def build() -> tuple[nn.Module, Any]:
        model = CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text)
        _redraw(model)
        return model, {"image": _draw(1, 3, 32, 32), "text": torch.arange(1, 13)[None]}

    yield Case("open_clip", "CLIP", build)
