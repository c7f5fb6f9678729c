"""Two caches for each text; there is no interval."""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from transformer_lens.model_bridge import TransformerBridge

models, found = [TransformerBridge.boot_transformers(name) for name in ("base", "tuned")], []
for model in models:
    total, rows = 0, 0
    for text in Path("texts.txt").read_text().splitlines()[:20]:
        _, cache = model.run_with_cache(text)
        pattern = torch.stack([cache["pattern", layer][0] for layer in range(model.cfg.n_layers)])
        total = total + torch.special.entr(pattern)[:, :, 1:].sum((-1, -2))
        rows += pattern.shape[-1] - 1
    found.append(total / rows)
plt.imshow((found[1] - found[0]).detach(), cmap="RdBu")
plt.savefig("changes.svg")
