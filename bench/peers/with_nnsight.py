"""The tasks with nnsight."""

import harness
import torch


def open_model(folder):
    from nnsight import LanguageModel

    return LanguageModel(folder, dispatch=True, attn_implementation="eager")


def statistics(model, ids):
    same, after = pairs(ids)
    with torch.no_grad(), model.trace(ids[None]):
        found = list().save()  # noqa: C408 - nnsight's own form
        for block in model.transformer.h:
            found.append(reduce(block.attn.output[1][0], same, after))
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
    with torch.no_grad(), model.trace(ids[None]):
        model.transformer.h[5].attn.c_proj.input[..., 64:128] = 0
        logits = model.output.logits[0, -1].save()
    return logits  # noqa: RET504 - a trace's body is not this function's


def parts(model, ids):
    with torch.no_grad(), model.trace(ids[None]):
        found = list().save()  # noqa: C408 - nnsight's own form
        for block in model.transformer.h:
            z = block.attn.c_proj.input[0, -1].view(12, 64)
            found.append(torch.einsum("hd,hdm->hm", z, block.attn.c_proj.weight.view(12, 64, 768)))
    return torch.stack(found)


if __name__ == "__main__":
    harness.main("nnsight", open_model, statistics=statistics, ablation=ablation, parts=parts)
