"""Drawn with matplotlib."""

import matplotlib.pyplot as plt
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
text = "My white horse drank at the river. My white horse drank at the"
_, cache = model.run_with_cache(text)
tokens = model.to_str_tokens(text)
plt.imshow(cache["pattern", 5][0, 6].detach())
plt.xticks(range(len(tokens)), tokens, rotation=90)
plt.yticks(range(len(tokens)), tokens)
plt.savefig("pattern.pdf")
plt.savefig("pattern.svg")
