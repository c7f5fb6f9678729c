"""TransformerLens reads no GGUF file itself: transformers unpacks it."""

from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM, AutoTokenizer

file = "SmolLM2-135M-Instruct-Q8_0.gguf"
unpacked = AutoModelForCausalLM.from_pretrained(".", gguf_file=file)
unpacked.config.save_pretrained("unpacked")
tokenizer = AutoTokenizer.from_pretrained(".", gguf_file=file)
model = TransformerBridge.boot_transformers("unpacked", hf_model=unpacked, tokenizer=tokenizer)
top = model("The capital of France is")[0, -1].softmax(-1).topk(3)
print([(model.to_string(index), value) for value, index in zip(top.values, top.indices)])
