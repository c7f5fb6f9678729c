"""The table is made by hand, for one statistic."""

import pandas as pd
import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
text = "My white horse drank at the river. My white horse drank at the"
_, cache = model.run_with_cache(text)
ids = model.to_tokens(text)[0]
after = torch.zeros(len(ids), len(ids), dtype=torch.bool)
after[:, 1:] = (ids[:, None] == ids[:-1]) & ~torch.eye(len(ids), dtype=torch.bool)[:, 1:]
rows = []
for layer in range(model.cfg.n_layers):
    scores = (cache["pattern", layer][0] * after).sum(-1)[:, after.any(-1)].mean(-1)
    rows += [{"layer": layer, "head": head, "induction": float(score)} for head, score in enumerate(scores)]
print(pd.DataFrame(rows).nlargest(5, "induction"))
