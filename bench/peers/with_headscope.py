"""The tasks with headscope."""

import harness
import torch


def open_model(folder):
    import headscope

    return headscope.load(folder)


def statistics(scope, ids):
    look = scope.look(ids)
    rows = [look.statistics(site) for site in look.sites]
    asked = ("previous", "duplicate", "induction")
    each = [[row.entropy, row.distance.mean, row.strongest.weight, *map(row.mass.get, asked)] for row in rows]
    return torch.stack([torch.cat(layer) for layer in each], dim=1)


def ablation(scope, ids):
    import headscope

    with scope.edit(headscope.ablate("5.1")):
        return scope.look(ids).logits[-1]


def parts(scope, ids):
    sites = scope.look(ids).contributions(-1).sites
    return torch.stack([site.parts for site in sites.values()])


def picture_of_a_head(scope, ids, path):
    scope.look(ids).plot("5.1").save(path)


def picture_of_all(scope, ids, path):
    scope.look(ids).save_html(path)


if __name__ == "__main__":
    harness.main(
        "headscope", open_model, statistics=statistics, ablation=ablation, parts=parts,
        picture_of_a_head=picture_of_a_head, picture_of_all=picture_of_all,
    )  # fmt: skip
