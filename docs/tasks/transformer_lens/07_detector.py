"""A detection pattern is a matrix of this text's tokens."""

import re

import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
text = "Mary met John. She gave him a book, and he thanked her."
_, cache = model.run_with_cache(text)
tokens = [token.strip() for token in model.to_str_tokens(text)]
rows = [n for n, token in enumerate(tokens) if re.fullmatch("(?i)she|he|him|her", token)]
columns = [n for n, token in enumerate(tokens) if re.fullmatch("Mary|John", token)]
pattern = torch.stack([cache["pattern", layer][0] for layer in range(model.cfg.n_layers)])
mass = pattern[:, :, rows][..., columns].sum(-1).mean(-1)
top = mass.flatten().topk(5)
print([(divmod(int(index), model.cfg.n_heads), float(value)) for value, index in zip(top.values, top.indices)])
