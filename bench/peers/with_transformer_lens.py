"""The tasks with TransformerLens."""

import harness
import torch


def open_model(folder):
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(folder)


def statistics(model, ids):
    found, same, after = [], *pairs(ids)
    hook = lambda pattern, hook: found.append(reduce(pattern[0], same, after))  # noqa: E731 - fewest lines
    with torch.no_grad():
        model.run_with_hooks(ids[None], fwd_hooks=[(lambda name: name.endswith("hook_pattern"), hook)])
    return torch.stack(found, dim=1)


def pairs(ids):
    other = ~torch.eye(len(ids), dtype=torch.bool)
    before = torch.cat([torch.tensor([-1]), ids[:-1]])
    return (ids[:, None] == ids) & other, (ids[:, None] == before) & other


def reduce(pattern, same, after):
    place = torch.arange(pattern.shape[-1])
    entropy = torch.special.entr(pattern).sum(-1)
    distance = (pattern * (place[:, None] - place)).sum(-1)
    previous = torch.nn.functional.pad(pattern.diagonal(-1, 1, 2), (1, 0))
    return torch.stack(
        [entropy, distance, pattern.amax(-1), previous, (pattern * same).sum(-1), (pattern * after).sum(-1)]
    )


def ablation(model, ids):
    def silence(z, hook):
        z[:, :, 1] = 0
        return z

    with torch.no_grad():
        return model.run_with_hooks(ids[None], fwd_hooks=[("blocks.5.attn.hook_z", silence)])[0, -1]


def parts(model, ids):
    with torch.no_grad():
        _, cache = model.run_with_cache(ids[None], names_filter=lambda name: name.endswith("hook_z"))
        return cache.stack_head_results(pos_slice=-1)[:, 0].view(12, 12, 768)


if __name__ == "__main__":
    harness.main("transformer-lens", open_model, statistics=statistics, ablation=ablation, parts=parts)
