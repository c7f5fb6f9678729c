"""A head passes here where its score is above a threshold: there is no test against chance."""

import random

import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
text = "My white horse drank at the river. My white horse drank at the"
ids = torch.randint(3, model.cfg.d_vocab, (4, 50)).repeat(1, 2)
_, cache = model.run_with_cache(ids)
found = [
    (layer, head)
    for layer in range(model.cfg.n_layers)
    for head in range(model.cfg.n_heads)
    if cache["pattern", layer][:, head].diagonal(-49, -2, -1).mean() > 0.4
]
pick = lambda layer: random.choice([h for h in range(model.cfg.n_heads) if (layer, h) not in found])
others = [(layer, pick(layer)) for layer, _ in found]
for heads in (found, others):

    def off(z, hook):
        for layer, head in heads:
            if hook.name == f"blocks.{layer}.attn.hook_z":
                z[:, :, head] = 0
        return z

    logits = model.run_with_hooks(text, fwd_hooks=[(lambda name: name.endswith("attn.hook_z"), off)])
    print(len(heads), "heads off:", model.to_string(logits[0, -1].argmax()))
