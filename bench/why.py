"""How fast scores are split, and how far predicted effects of cut paths are from true ones.

    python bench/why.py                       # everything; writes bench/results/why-cpu.json
    python bench/why.py --only paths          # speed, paths, circuit or peer; what was measured before is kept

``speed``: one arrow, and all arrows of a row, against one forward pass, on a random model of GPT-2 small's shape.
``paths``: the strongest paths into the keys of the embedded model: the change of the logit that is predicted, all later
parts held, beside the true one. ``circuit``: a circuit on 32 pairs of 20 tokens of GPT-2 small's shape, and the
embedded model's induction circuit. ``peer``: every edge's score on such pairs, beside TransformerLens's own edge
attribution (bench/peer_env.py), which takes one gradient, on the corrupted text; ours is also taken there and compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peer_env
import tokenizers
import torch
import transformers

import headscope
from headscope.attention.observer import Call, plain
from headscope.heads.explain import edge_attribution
from headscope.heads.explain.edge_attribution import score_edges
from headscope.heads.explain.edge_patching import PatchedModel, RecordedPairs
from headscope.heads.explain.path_effect import cut_reader, path_effect
from headscope.heads.explain.why import explained
from headscope.heads.look.look import Look
from headscope.models.structure.recorded_pass import logit_direction
from headscope.scope import Scope

RESULTS = Path(__file__).parent / "results" / "why-cpu.json"
PEER_PAIRS = 1  # the peer goes through pairs one by one
TEXTS = (
    "My white horse drank at the river. My white horse drank at the",
    "The old captain looked at the sea, and the old captain looked at the",
    "When Mary and John went to the house, John gave the letter to",
    "She had a book and a lamp. He took the book, and she took the",
    "The doctor spoke to the lady in the garden, and then the doctor spoke to the",
)


def seconds(run: Callable[[], Any], times: int = 5) -> float:
    """Processor seconds of the fastest of some runs: what else the machine does hardly counts."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        run()
        taken.append(time.process_time() - started)
    return min(taken)


def gpt2_small() -> Scope:
    torch.manual_seed(0)
    model: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config())  # type: ignore[no-untyped-call]
    return headscope.load(model.eval())


def speed() -> dict[str, Any]:
    """One arrow and all arrows of a row, each from a fresh look, in forward passes.

    ``row`` is every arrow's numbers and the shares of one; ``row_shares`` makes all shares of all arrows, too.
    """
    with gpt2_small() as scope:
        found = {}
        for length in (64, 512):
            ids = torch.randint(1000, 40000, (length,), generator=torch.Generator().manual_seed(0)).tolist()
            look = scope.look(ids)
            forward = seconds(lambda look=look: scope.model.run(look.prepared.inputs))

            def fresh(keys: list[int] | None, read: slice, look: Look = look) -> float:
                look.explained = None
                return seconds(lambda: [(why.asked, why.answered) for why in look.why_row("9.4", -1, keys)[read]], 1)

            one, every = slice(1), slice(None)
            turns = [(fresh([5], one), fresh(None, one), fresh(None, every)) for _ in range(9)]
            best = [min(each) / forward for each in zip(*turns, strict=True)]
            found[str(length)] = {"forward_s": forward, **dict(zip(("arrow", "row", "row_shares"), best, strict=True))}
    return found


def paths(count: int = 10) -> dict[str, Any]:
    """The paths whose cut is predicted to move the likeliest token's logit most: predicted in three ways, and true.

    ``held`` takes the writer's pairs out of the scores, the reader's norm at its scale; ``predicted`` computes that
    norm again; both hold everything after the reader. ``first_order`` lets it answer, linearly: the change of its z
    times the gradient of the logit with respect to that z. ``by_held`` are the paths that are largest by ``held``,
    ``by_predicted``, of four times as many of them, those that are largest by ``predicted``.
    """
    rows, others = [], []
    with headscope.load() as scope:
        for text in TEXTS:
            look = scope.look(text)
            token = look.predictions(count=1)[0].token
            gradients = _z_gradients(scope, look, token.id)
            ranked = sorted(_predicted(scope, look, token.id), key=lambda each: -abs(each["held"]))[: 4 * count]
            for each in ranked:
                cut = headscope.path(each["writer"], each["reader"], into="k", query=each["query"], key=each["key"])
                effect = path_effect(look, cut, token.id)
                head = headscope.Head.parse(each["reader"])
                change = cut_reader(look, cut).change
                first = float(change.detach() @ gradients[head.site][0, head.head, each["query"]].double())
                later = [(name, value) for name, value in effect.answers.items() if name != each["reader"]][:3]
                weight = None if effect.weight is None else vars(effect.weight)
                numbers = {"predicted": effect.logit.predicted_change, "first_order": first, "weight": weight}
                named = {"text": text, "token": token.text, "answers": dict(later)}
                each.update({**numbers, "true": effect.logit.true_change, **named})
            rows += ranked[:count]
            others += sorted(ranked, key=lambda each: -abs(each["predicted"]))[:count]
    return {"by_held": _compared(rows), "by_predicted": _compared(others)}


def _compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Correlation, wrong signs and mean error of each prediction."""
    found: dict[str, Any] = {}
    for name in ("held", "predicted", "first_order"):
        wrong = [row for row in rows if row[name] * row["true"] < 0]
        found[name] = {
            "correlation": _correlation(rows, name),
            "mean_error": sum(abs(row[name] - row["true"]) for row in rows) / len(rows),
            "other_sign": len(wrong),
            "largest_of_other_sign": max((min(abs(row[name]), abs(row["true"])) for row in wrong), default=0.0),
        }
    return {**found, "other_sign": [row for row in rows if row["predicted"] * row["true"] < 0], "paths": rows}


def _correlation(rows: list[dict[str, Any]], name: str) -> float:
    pair = torch.tensor([[row[name] for row in rows], [row["true"] for row in rows]])
    return float(torch.corrcoef(pair)[0, 1])


def _z_gradients(scope: Scope, look: Look, token: int) -> dict[str, torch.Tensor]:
    """The gradient of the last position's logit with respect to every head's z, through all that comes after."""
    leaves: dict[str, torch.Tensor] = {}

    def observer(site: str, call: Call) -> torch.Tensor:
        z = plain(call)
        leaves[site] = torch.zeros_like(z).requires_grad_()
        return z + leaves[site]

    with torch.enable_grad():
        logit = scope.model.run(look.prepared.inputs, observer).logits[0, -1, token]
        found = torch.autograd.grad(logit, list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


@torch.no_grad()
def _predicted(scope: Scope, look: Look, token: int) -> list[dict[str, Any]]:
    """For the strongest arrows of the last row: what cutting each writer from the key changes, all else held."""
    query, found = len(look.tokens) - 1, []
    attribution = look.logit_attribution(token)
    parts = look.contributions(query)
    direction = logit_direction(scope.model, look.recorded.final(query), [token])
    for head, _ in attribution.ranked()[:12]:
        weights = look.weights(head, slice(query, query + 1))[0]
        reading = scope.model.output_weight(head.site).weight[head.head].float() @ direction
        z = parts.sites[head.site].z[head.head]
        scores = explained(look).scores(head)
        values = _values(scope, look, head)
        for key in weights.topk(3).indices.tolist():
            shares = scores.k.parts[:, key] @ scores.q.parts[:, query].sum(0) * scores.scale
            for writer, share in zip(scores.k.writers, shares.tolist(), strict=True):
                fallen = weights.clone()
                fallen[key] = fallen[key] * torch.exp(torch.tensor(-share))
                change = float((fallen / fallen.sum() @ values - z) @ reading)
                names = {"writer": writer.name, "reader": str(head), "query": query, "key": key}
                found += [{**names, "held": change}] if writer.kind in ("head", "mlp", "embedding") else []
    return found


def _values(scope: Scope, look: Look, head: headscope.Head) -> torch.Tensor:
    from headscope.heads.explain.score_split import Reading

    kv = head.head // scope.shape.sites[head.site].group_size
    return Reading(explained(look).stream, head.site, "v", kv).parts().parts.sum(0)


def task(count: int) -> tuple[torch.Tensor, torch.Tensor, list[tuple[int, int]]]:
    """Pairs of 20 random tokens of which one differs, each with two tokens whose logits are compared."""
    draw = torch.Generator().manual_seed(0)
    clean = torch.randint(1000, 40000, (count, 20), generator=draw)
    corrupted = clean.clone()
    corrupted[:, 10] = torch.randint(1000, 40000, (count,), generator=draw)
    return clean, corrupted, [(int(a), int(b)) for a, b in torch.randint(1000, 40000, (count, 2), generator=draw)]


def circuit() -> dict[str, Any]:
    """Seconds for a circuit of GPT-2 small's shape, and the embedded model's induction circuit."""
    clean, corrupted, answers = task(32)
    found: dict[str, Any] = {}
    with gpt2_small() as scope:
        started = (time.perf_counter(), time.process_time())
        made = scope.circuit(clean.tolist(), corrupted.tolist(), answers, wanted=0.5)
        taken = {"wall_s": time.perf_counter() - started[0], "processor_s": time.process_time() - started[1]}
        found["gpt2_small"] = {**taken, "edges": len(made.edges), "of": len(made.scores)}
    with headscope.load() as scope:
        began = time.process_time()
        made = scope.circuit("induction")
        found["embedded_induction"] = {
            **made.to_dict(),
            "n_edges": len(made.edges),
            "nodes": made.nodes,
            "processor_s": time.process_time() - began,
        }
    return found


def peer() -> dict[str, Any]:
    """Scores of all edges, ours and TransformerLens's, on the same pairs and weights."""
    clean, corrupted, answers = task(PEER_PAIRS)
    pairs = {"clean": clean.tolist(), "corrupted": corrupted.tolist(), "answers": answers}
    with tempfile.TemporaryDirectory() as folder, gpt2_small() as scope:
        asked, answer = Path(folder, "pairs.json"), Path(folder, "scores.json")
        asked.write_text(json.dumps(pairs))
        scope.model.model.save_pretrained(folder)
        tokenizer(folder)
        script = Path(__file__).parent / "peers" / "edges_with_transformer_lens.py"
        try:
            said = peer_env.run(
                "transformer-lens", script, folder, str(asked), str(answer), threads=torch.get_num_threads()
            )
        except (OSError, subprocess.CalledProcessError) as error:
            return {"skipped": f"TransformerLens was not installed or did not run: {error}"}
        theirs = json.loads(answer.read_text())
        patched, inputs = PatchedModel(scope.model), [{"input_ids": ids} for ids in (clean, corrupted)]
        began = time.process_time()

        def metric(logits: torch.Tensor) -> torch.Tensor:
            ends = logits[:, -1].gather(1, torch.tensor(answers))
            return ends[:, 0] - ends[:, 1]

        score_edges(RecordedPairs(patched, *inputs, metric))
        ours = {
            "processor_s": time.process_time() - began,
            "gradients": edge_attribution.STEPS + edge_attribution.HALVED,
        }
        began = time.process_time()
        scores = score_edges(RecordedPairs(patched, *inputs, metric), at=0.0)
        ours["processor_s_one_gradient"] = time.process_time() - began
    own = {str(edge): score for edge, score in scores.items()}
    shared = sorted(own.keys() & theirs.keys())
    gap = max(abs(own[edge] - theirs[edge]) for edge in shared) / max(map(abs, theirs.values()))
    return {
        "transformer_lens": json.loads(said.splitlines()[-1]),
        "headscope": ours,
        "pairs": PEER_PAIRS,
        "edges": {"ours": len(own), "theirs": len(theirs), "both": len(shared)},
        "only_theirs": sorted(theirs.keys() - own.keys())[:5],
        "only_ours": sorted(own.keys() - theirs.keys())[:5],
        "largest_difference_of_largest_score": gap,
    }


def tokenizer(folder: str) -> None:
    """A tokenizer of GPT-2's size beside the weights; the peer opens none without one."""
    words = {f"<{index}>": index for index in range(50257)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<0>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<50256>").save_pretrained(folder)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"speed": speed, "paths": paths, "circuit": circuit, "peer": peer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.only or PARTS:
        kept[name] = {
            "date": time.strftime("%Y-%m-%d"),
            "threads": given.threads,
            "torch": torch.__version__,
            **PARTS[name](),
        }
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
