"""The whole pattern of each layer is stored."""

import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
hay, needle = "The grass is green and the sky is blue. " * 60, "The secret word is lantern. "
text = hay + needle + hay + "The secret word is"
_, cache = model.run_with_cache(text, names_filter=lambda name: name.endswith("hook_pattern"))
tokens = model.to_str_tokens(text)
ends = [len("".join(tokens[: n + 1])) for n in range(len(tokens))]
start = "".join(tokens).index("lantern")
places = [n for n, end in enumerate(ends) if end > start and end - len(tokens[n]) < start + len("lantern")]
mass = torch.stack([cache["pattern", layer][0, :, -1, places].sum(-1) for layer in range(model.cfg.n_layers)])
top = mass.flatten().topk(5)
print([(divmod(int(index), model.cfg.n_heads), float(value)) for value, index in zip(top.values, top.indices)])
