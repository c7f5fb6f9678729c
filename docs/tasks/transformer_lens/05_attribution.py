"""The map is drawn with matplotlib."""

import matplotlib.pyplot as plt
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
_, cache = model.run_with_cache("When Mary and John went to the shop, John gave a book to")
parts = cache.stack_head_results(pos_slice=-1)
found = cache.logit_attrs(parts, " Mary", incorrect_tokens=" John", pos_slice=-1).view(model.cfg.n_layers, -1)
plt.imshow(found.detach(), cmap="RdBu")
plt.colorbar()
plt.savefig("attribution.svg")
