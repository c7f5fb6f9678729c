"""Language models, protein models and others of smaller libraries, small and random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Made = tuple[nn.Module, Any]


def _draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _ids(length: int = 11, vocabulary: int = 97) -> Tensor:
    return torch.randint(3, vocabulary, (1, length), generator=torch.Generator().manual_seed(0))


def _x_decoder(**more: Any) -> Made:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **more)
    return TransformerWrapper(num_tokens=97, max_seq_len=32, attn_layers=layers), _ids()


def _x_talking(**more: Any) -> Made:
    """Heads that are mixed: the library begins with an identity, which mixes nothing."""
    model, ids = _x_decoder(**more)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = _draw(*module.weight.shape)
    return model, ids


def _x_encoder() -> Made:
    from x_transformers import Encoder

    return Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True), _draw(1, 9, 32)


def _x_cross() -> Made:
    from x_transformers import Decoder

    model = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, cross_attend=True)
    return model, {"x": _draw(1, 9, 32), "context": _draw(1, 6, 32)}


def _torchtune(**more: Any) -> Made:
    from torchtune.models.llama3 import llama3

    sizes = {"num_heads": 4, "num_kv_heads": 2, "embed_dim": 32, "max_seq_len": 64, "intermediate_dim": 48}
    return llama3(vocab_size=97, num_layers=2, **sizes, **more), _ids()


def _litgpt(name: str) -> Made:
    from litgpt import GPT, Config

    config = Config(
        name=name, block_size=64, vocab_size=97, padded_vocab_size=97, n_layer=2, n_head=4, n_embd=32, head_size=8,
        n_query_groups=2 if name == "llama" else 4, intermediate_size=48, rotary_percentage=1.0,
    )  # fmt: skip
    return GPT(config), _ids()


def _esm2() -> Made:
    from esm.model.esm2 import ESM2

    return ESM2(num_layers=2, embed_dim=32, attention_heads=4), {"tokens": _ids(12, 30)}


def _segment_anything() -> Made:
    from segment_anything.modeling import ImageEncoderViT

    model = ImageEncoderViT(
        img_size=64, patch_size=8, embed_dim=32, depth=2, num_heads=4, out_chans=8, use_rel_pos=True, window_size=3,
        global_attn_indexes=(1,),
    )  # fmt: skip
    return model, _draw(1, 3, 64, 64)


def _monai_vit() -> Made:
    from monai.networks.nets import ViT

    model = ViT(1, (32, 32), (8, 8), hidden_size=32, mlp_dim=48, num_layers=2, num_heads=4, spatial_dims=2)
    return model, _draw(1, 1, 32, 32)


def _monai_swin() -> Made:
    from monai.networks.nets import SwinUNETR

    return SwinUNETR(in_channels=1, out_channels=2, feature_size=12, spatial_dims=2), _draw(1, 1, 64, 64)


def _perceiver() -> Made:
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(dim=32, queries_dim=32, logits_dim=10, depth=2, num_latents=7, latent_dim=24)
    return model, {"data": _draw(1, 9, 32), "queries": _draw(1, 5, 32)}


def _tabular() -> Made:
    from tab_transformer_pytorch import FTTransformer

    model = FTTransformer(categories=(5, 4, 3), num_continuous=4, dim=32, depth=2, heads=4, dim_head=8)
    return model, {"x_categ": torch.tensor([[1, 2, 0]]), "x_numer": _draw(1, 4)}


def _local() -> Made:
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=97, dim=32, depth=2, max_seq_len=64, local_attn_window_size=8, heads=4, dim_head=8
    )
    return model, _ids(32)


def _linformer() -> Made:
    from linformer import Linformer

    return Linformer(dim=32, seq_len=16, depth=2, heads=4, k=6), _draw(1, 16, 32)


def _performer() -> Made:
    from performer_pytorch import Performer

    return Performer(dim=32, depth=2, heads=4, dim_head=8), _draw(1, 16, 32)


MORE: dict[str, dict[str, Callable[[], Made]]] = {
    "x-transformers": {
        "Decoder": _x_decoder,
        "Decoder, flash": lambda: _x_decoder(attn_flash=True),
        "Decoder, ALiBi": lambda: _x_decoder(alibi_pos_bias=True),
        "Decoder, rotary and one KV head": lambda: _x_decoder(rotary_pos_emb=True, attn_one_kv_head=True),
        "Decoder, QK norm": lambda: _x_decoder(attn_qk_norm=True),
        "Decoder, gated": lambda: _x_decoder(attn_gate_values=True),
        "Decoder, memory keys": lambda: _x_decoder(attn_num_mem_kv=3),
        "Decoder, heads mixed before softmax": lambda: _x_talking(attn_pre_talking_heads=True),
        "Decoder, heads mixed after softmax": lambda: _x_talking(attn_post_talking_heads=True),
        "Encoder": _x_encoder,
        "Decoder with context": _x_cross,
    },
    "torchtune": {"llama3": _torchtune},
    "litgpt": {"pythia's form": lambda: _litgpt("pythia"), "llama's form": lambda: _litgpt("llama")},
    "fair-esm": {"ESM2": _esm2},
    "segment-anything": {"ImageEncoderViT": _segment_anything},
    "monai": {"ViT": _monai_vit, "SwinUNETR": _monai_swin},
    "perceiver-pytorch": {"PerceiverIO": _perceiver},
    "tab-transformer-pytorch": {"FTTransformer": _tabular},
    "local-attention": {"LocalTransformer": _local},
    "linformer": {"Linformer": _linformer},
    "performer-pytorch": {"Performer": _performer},
}
