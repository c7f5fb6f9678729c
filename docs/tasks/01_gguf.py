"""Open SmolLM2 from a GGUF file, and see what it predicts."""

import headscope

scope = headscope.load("SmolLM2-135M-Instruct-Q8_0.gguf")
print(scope.look("The capital of France is").predictions(count=3))
