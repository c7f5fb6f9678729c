"""A model whose tokens and name contain script injections."""

from __future__ import annotations

import tokenizers
import torch
import transformers

import headscope
from headscope.scope import Scope

TOKENS = (
    "</script><script>window.ran=1</script>",
    "<img/src=x/onerror=window.ran=2>",
    '"onmouseover="window.ran=3',
    "'><svg/onload=window.ran=4>",
    "</title></style></textarea>",
    "<!--",
    "]]>",
    "{{data}}",
    "${window.ran=5}",
    "&lt;b&gt;",
    "javascript:window.ran=6",
    "\u202eevil\u2066",
)
TEXT = " ".join(TOKENS)
NAME = "<img src=x onerror=window.ran=7>"


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate((*TOKENS, "[UNK]"))}, "[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")


def hostile_scope() -> Scope:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(TOKENS) + 1, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return headscope.load(transformers.LlamaForCausalLM(config).eval(), tokenizer(), name=NAME)
