"""The tasks with transformers alone: eager attention, its weights, and PyTorch's hooks."""

import harness
import torch


def open_model(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()


def statistics(model, ids):
    found, same, after = [], *pairs(ids)
    hooks = [
        block.attn.register_forward_hook(lambda _, __, out: found.append(reduce(out[1][0], same, after)))
        for block in model.transformer.h
    ]
    with torch.no_grad():
        model(ids[None])
    for hook in hooks:
        hook.remove()
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
    def silence(_, given):
        z = given[0].clone()
        z[..., 64:128] = 0
        return (z,)

    hook = model.transformer.h[5].attn.c_proj.register_forward_pre_hook(silence)
    with torch.no_grad():
        logits = model(ids[None]).logits[0, -1]
    hook.remove()
    return logits


def parts(model, ids):
    found = []

    def split(module, given):
        found.append(torch.einsum("hd,hdm->hm", given[0][0, -1].view(12, 64), module.weight.view(12, 64, 768)))

    hooks = [block.attn.c_proj.register_forward_pre_hook(split) for block in model.transformer.h]
    with torch.no_grad():
        model(ids[None])
    for hook in hooks:
        hook.remove()
    return torch.stack(found)


if __name__ == "__main__":
    harness.main("transformers", open_model, statistics=statistics, ablation=ablation, parts=parts)
