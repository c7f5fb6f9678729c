"""The patterns of one text at a time are stored, and their entropies averaged over rows."""

from pathlib import Path

import torch
from transformer_lens.model_bridge import TransformerBridge

model, total, rows = TransformerBridge.boot_transformers("small"), 0, 0
for text in Path("texts.txt").read_text().splitlines():
    _, cache = model.run_with_cache(text, names_filter=lambda name: name.endswith("hook_pattern"))
    pattern = torch.stack([cache["pattern", layer][0] for layer in range(model.cfg.n_layers)])
    total = total + torch.special.entr(pattern)[:, :, 1:].sum((-1, -2))
    rows += pattern.shape[-1] - 1
print(total / rows)
