"""TransformerLens's own edge attribution on pairs of token ids: processor seconds, and every edge's score.

Its edges are between positions; they are added up over positions here, into the names that headscope gives them.
"""

import json
import sys
import time
from importlib import metadata
from pathlib import Path

import torch


def open_model(folder):
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(folder, device="cpu")


def name(node):
    if node.kind in ("embed", "logits"):
        return {"embed": "embedding", "logits": "logits"}[node.kind]
    if node.kind.startswith("mlp"):
        return f"mlp {node.layer}"
    into = "" if node.kind == "attn_head_out" else f"<{node.kind[0]}>"
    return f"{node.layer}.{node.head}{into}"


def main(folder, pairs, out):
    from transformer_lens.tools.analysis import attribution_patching

    model, given = open_model(folder), json.loads(Path(pairs).read_text())
    config = attribution_patching.EdgeAttributionConfig(granularity="edge")
    scores, edges, wall, processor = {}, 0, time.perf_counter(), time.process_time()
    for clean, corrupted, (right, wrong) in zip(given["clean"], given["corrupted"], given["answers"], strict=True):
        found = attribution_patching.attribution_patch(
            model, torch.tensor([clean]), torch.tensor([corrupted]),
            lambda logits, pair=(right, wrong): (logits[..., -1, pair[0]] - logits[..., -1, pair[1]]).sum(), config,
        )  # fmt: skip
        edges = len(found.edge_scores)
        for (writer, reader), score in found.edge_scores.items():
            edge = f"{name(writer)}->{name(reader)}"
            scores[edge] = scores.get(edge, 0.0) + score / len(given["clean"])
    took = {"processor_s": time.process_time() - processor, "wall_s": time.perf_counter() - wall}
    Path(out).write_text(json.dumps(scores))
    print(json.dumps({"version": metadata.version("transformer-lens"), "edges_of_positions": edges, **took}))


if __name__ == "__main__":
    main(*sys.argv[1:])
