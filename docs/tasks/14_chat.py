"""Look at a conversation, through the model's chat template."""

import headscope

scope = headscope.load("SmolLM2-135M-Instruct-Q8_0.gguf")
look = scope.look([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is attention?"}])
print(look.table())
