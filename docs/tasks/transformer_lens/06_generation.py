"""Hooks stay on the model while it generates."""

from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small")
glad, sad = (model.run_with_cache(text)[1]["resid_pre", 4][0, -1] for text in ("I am so happy", "I am so sad"))


def off(z, hook):
    z[:, :, 6] = 0
    return z


def steer(stream, hook):
    return stream + 4 * (glad - sad)


for hook in (("blocks.5.attn.hook_z", off), ("blocks.4.hook_resid_pre", steer)):
    with model.hooks(fwd_hooks=[hook]):
        print(model.generate("When she came back, she was", max_new_tokens=12, do_sample=False))
