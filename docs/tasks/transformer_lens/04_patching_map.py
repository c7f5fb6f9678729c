"""The map is drawn with matplotlib."""

import matplotlib.pyplot as plt
from transformer_lens import patching
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
clean = model.to_tokens("When Mary and John went to the shop, John gave a book to")
corrupted = model.to_tokens("When Mary and John went to the shop, Mary gave a book to")
right, wrong = model.to_single_token(" Mary"), model.to_single_token(" John")
difference = lambda logits: logits[0, -1, right] - logits[0, -1, wrong]
clean_logits, cache = model.run_with_cache(clean)
high, low = difference(clean_logits), difference(model(corrupted))
metric = lambda logits: (difference(logits) - low) / (high - low)
found = patching.get_act_patch_attn_head_out_all_pos(model, corrupted, cache, metric)
plt.imshow(found.detach(), cmap="RdBu", vmin=-1, vmax=1)
plt.colorbar()
plt.savefig("patching.svg")
