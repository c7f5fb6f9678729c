"""Models of libraries that were tried after the seam was written, small and random."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.conformance.more_cases import Made, _draw, _ids


def _kornia_vit() -> Made:
    from kornia.models.vit import VisionTransformer

    return VisionTransformer(image_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), _draw(1, 3, 32, 32)


def _kornia_tiny_vit() -> Made:
    from kornia.models.tiny_vit import TinyViT

    sizes = {"depths": (1, 1, 2, 1), "num_heads": (2, 2, 4, 4), "window_sizes": (4, 4, 4, 2)}
    return TinyViT(img_size=64, num_classes=5, embed_dims=(16, 32, 32, 64), **sizes), _draw(1, 3, 64, 64)


def _kornia_loftr() -> Made:
    from kornia.feature.loftr.loftr_module.transformer import LocalFeatureTransformer

    config = {"d_model": 32, "nhead": 4, "layer_names": ["self", "cross"], "attention": "full"}
    return LocalFeatureTransformer(config), (_draw(1, 9, 32), _draw(1, 7, 32))


EDGES = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]])


class _Graph(nn.Module):
    """Two layers of messages along edges beside attention between all nodes."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric.nn import GINConv, GPSConv

        self.layers = nn.ModuleList(GPSConv(32, GINConv(nn.Linear(32, 32)), heads=4) for _ in range(2))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edges)
        return x


def _set_attention() -> Made:
    from torch_geometric.nn.aggr.utils import SetAttentionBlock

    return SetAttentionBlock(32, heads=4), _draw(2, 9, 32)


def _transformer_conv() -> Made:
    from torch_geometric.nn import TransformerConv

    return TransformerConv(16, 8, heads=4), (_draw(7, 16), EDGES)


def _unet(**more: Any) -> Made:
    from denoising_diffusion_pytorch import Unet

    return Unet(dim=16, dim_mults=(1, 2), attn_heads=4, attn_dim_head=8, **more), (
        _draw(1, 3, 12, 12),
        torch.tensor([5]),
    )


def _conformer() -> Made:
    from conformer import Conformer

    return Conformer(dim=32, depth=2, dim_head=8, heads=4), _draw(1, 9, 32)


def _nystrom() -> Made:
    from nystrom_attention import Nystromformer

    return Nystromformer(dim=32, dim_head=8, heads=4, depth=2, num_landmarks=4), _draw(1, 16, 32)


def _reformer(full: bool) -> Made:
    from reformer_pytorch import ReformerLM

    sizes = {"max_seq_len": 32, "heads": 4, "bucket_size": 8, "n_hashes": 2}
    return ReformerLM(num_tokens=97, dim=32, depth=2, causal=True, use_full_attn=full, **sizes), _ids(32)


def _curated_neox() -> Made:
    from curated_transformers.layers import AttentionMask
    from curated_transformers.models.gpt_neox import GPTNeoXCausalLM, GPTNeoXConfig

    sizes = {"hidden_width": 32, "intermediate_width": 64, "n_attention_heads": 4, "n_hidden_layers": 2, "n_pieces": 97}
    mask = AttentionMask(torch.ones(1, 11, dtype=torch.bool))
    return GPTNeoXCausalLM(GPTNeoXConfig(dtype=torch.float32, **sizes)), {"piece_ids": _ids(), "attention_mask": mask}


def _curated_bert() -> Made:
    from curated_transformers.layers import AttentionMask
    from curated_transformers.models.bert import BERTConfig, BERTEncoder

    sizes = {"hidden_width": 32, "intermediate_width": 64, "n_attention_heads": 4, "n_hidden_layers": 2, "n_pieces": 97}
    mask = AttentionMask(torch.ones(1, 11, dtype=torch.bool))
    return BERTEncoder(BERTConfig(embedding_width=32, **sizes)), {"piece_ids": _ids(), "attention_mask": mask}


def _keras() -> Made:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    x = keras.Input((9, 32))
    attended = keras.layers.MultiHeadAttention(4, 8)(x, x)
    model = keras.Model(x, keras.layers.Dense(5)(keras.layers.LayerNormalization()(x + attended)))
    return model, _draw(1, 9, 32)


def _lightly() -> Made:
    import timm
    from lightly.models.modules.masked_vision_transformer_timm import MaskedVisionTransformerTIMM

    vit = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2)
    return MaskedVisionTransformerTIMM(vit), _draw(1, 3, 32, 32)


def _x_clip() -> Made:
    from x_clip import CLIP

    text = {"num_text_tokens": 97, "text_enc_depth": 2, "text_seq_len": 11, "text_heads": 4, "text_dim_head": 8}
    image = {"visual_image_size": 32, "visual_patch_size": 8, "visual_enc_depth": 2, "visual_heads": 4}
    model = CLIP(dim_text=32, dim_image=32, dim_latent=32, **text, **image, visual_dim_head=8, visual_patch_dropout=0.0)
    return model, (_ids(), _draw(1, 3, 32, 32))


def _graph_transformer() -> Made:
    from graph_transformer_pytorch import GraphTransformer

    return GraphTransformer(dim=32, depth=2, heads=4, dim_head=8, edge_dim=16), (_draw(1, 7, 32), _draw(1, 7, 7, 16))


def _torchscale() -> Made:
    from torchscale.architecture.config import EncoderConfig
    from torchscale.architecture.encoder import Encoder

    config = EncoderConfig(
        vocab_size=97, encoder_embed_dim=32, encoder_attention_heads=4, encoder_ffn_embed_dim=64, encoder_layers=2
    )
    return Encoder(config, embed_tokens=nn.Embedding(97, 32)), _ids()


def _rtdl() -> Made:
    from rtdl_revisiting_models import FTTransformer

    dropouts = {"attention_dropout": 0.0, "ffn_dropout": 0.0, "residual_dropout": 0.0}
    model = FTTransformer(
        n_cont_features=5, cat_cardinalities=[3, 4], d_out=2, n_blocks=2, d_block=32, attention_n_heads=4,
        ffn_d_hidden_multiplier=2.0, **dropouts,
    )  # fmt: skip
    return model, (_draw(4, 5), torch.tensor([[0, 1], [2, 3], [1, 1], [0, 0]]))


def _linear_attention(**more: Any) -> Made:
    from linear_attention_transformer import LinearAttentionTransformerLM

    return LinearAttentionTransformerLM(num_tokens=97, dim=32, heads=4, depth=2, max_seq_len=32, **more), _ids(32)


UNSEEN: dict[str, dict[str, Callable[[], Made]]] = {
    "kornia": {"VisionTransformer": _kornia_vit, "TinyViT": _kornia_tiny_vit, "LoFTR's transformer": _kornia_loftr},
    "torch_geometric": {
        "GPSConv": lambda: (_Graph(), (_draw(7, 32), EDGES)),
        "SetAttentionBlock": _set_attention,
        "TransformerConv (along edges)": _transformer_conv,
    },
    "denoising-diffusion-pytorch": {
        "Unet": lambda: _unet(full_attn=(False, True), flash_attn=False),
        "Unet, flash": lambda: _unet(full_attn=True, flash_attn=True),
    },
    "conformer": {"Conformer": _conformer},
    "curated-transformers": {"GPT-NeoX": _curated_neox, "BERT": _curated_bert},
    "keras": {"MultiHeadAttention": _keras},
    "lightly": {"MaskedVisionTransformerTIMM": _lightly},
    "x-clip": {"CLIP": _x_clip},
    "rtdl_revisiting_models": {"FTTransformer": _rtdl},
    "reformer-pytorch": {"full attention": lambda: _reformer(True), "hashed attention": lambda: _reformer(False)},
    "linear-attention-transformer": {
        "local and linear heads": lambda: _linear_attention(n_local_attn_heads=2, local_attn_window_size=8),
        "linear heads": lambda: _linear_attention(),
    },
    "nystrom-attention": {"Nystromformer": _nystrom},
    "graph-transformer-pytorch": {"GraphTransformer (values by edge)": _graph_transformer},
    "torchscale": {"Encoder (a norm over all heads)": _torchscale},
}
