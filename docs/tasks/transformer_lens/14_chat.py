"""The chat template is the tokenizer's; the patterns in the cache are reduced by hand."""

import torch
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM, AutoTokenizer

file = "SmolLM2-135M-Instruct-Q8_0.gguf"
unpacked = AutoModelForCausalLM.from_pretrained(".", gguf_file=file)
unpacked.config.save_pretrained("unpacked")
tokenizer = AutoTokenizer.from_pretrained(".", gguf_file=file)
model = TransformerBridge.boot_transformers("unpacked", hf_model=unpacked, tokenizer=tokenizer)
turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is attention?"}]
_, cache = model.run_with_cache(tokenizer.apply_chat_template(turns, return_tensors="pt")["input_ids"])
print([torch.special.entr(cache["pattern", layer][0]).sum(-1).mean(-1) for layer in range(model.cfg.n_layers)])
