"""Short answers for programs: a result with its evidence and its limits, in a few hundred bytes of JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from headscope.names import Head, HeadName

if TYPE_CHECKING:
    from headscope.heads.explain.sources import Sources
    from headscope.heads.explain.why import Share, Why
    from headscope.heads.look.look import Look
    from headscope.heads.roles.report import Finding, Report

MOST_TOKENS, MOST_HEADS, MOST_COMPONENTS = 200, 8, 4
_BY_QUESTION = 3  # heads named for each question


def short_look(look: Look) -> dict[str, Any]:
    """Numbered tokens, the next tokens, and the heads with the highest mean attention on each question."""
    words = [f"{at} {token.text}" for at, token in enumerate(look.tokens)]
    left_out = {"tokens_left_out": len(words) - MOST_TOKENS} if len(words) > MOST_TOKENS else {}
    return {
        "tokens": words[:MOST_TOKENS],
        **left_out,
        **next_tokens(look),
        "strongest": {
            question: [f"{head} {value:.2f}" for head, value in heads]
            for question, heads in top_heads(look, _BY_QUESTION).items()
        },
        "evidence": {"texts": 1, "tokens": len(words)},
        "limits": "Mean attention on one text, over the rows where the question applies. It is not a tested role.",
    }


def short_attention(look: Look, head: HeadName, query: int | str = -1, count: int = 5) -> dict[str, Any]:
    """The keys that one head attends to most from one position, and their weights."""
    found = look.find(head)
    rows, keys = look.query_tokens(found.site), look.key_tokens(found.site)
    at = query if isinstance(query, int) and rows is not look.written else look.position(query)
    row = look.weights(found, slice(at % len(rows), at % len(rows) + 1))[0].float()
    best = row.topk(min(count, len(row)))
    return {
        "head": str(found),
        "query": f"{at % len(rows)} {rows[at % len(rows)].text}",
        "keys": [
            {"position": key, "token": keys[key].text, "weight": round(weight, 3)}
            for weight, key in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ],
        "evidence": {"texts": 1, "rows": 1, "entropy_nats": round(float(torch.special.entr(row).sum()), 2)},
        "limits": "Attention shows where a head reads. It does not show that the output depends on it: ablate it.",
    }


def short_report(report: Report) -> dict[str, Any]:
    """The heads that pass each tested role, with score, chance level and ablation."""
    stopped = {"stopped": report.recipe["stopped"]} if "stopped" in report.recipe else {}
    return {
        "model": report.model,
        "heads_tested": report.n_heads,
        "roles": [
            {
                "role": trial.role,
                "means": trial.sentence,
                "passed": len(trial.named),
                "heads": [_finding(each) for each in report.with_role(trial.role)[:MOST_HEADS]],
                "evidence": {
                    "inputs": trial.n_inputs,
                    "best_with_shuffled_weights": None if trial.control is None else round(trial.control, 2),
                },
                "paper": trial.paper,
            }
            for trial in report.trials
            if trial.tested
        ],
        "not_tested": {trial.role: trial.why_not for trial in report.trials if not trial.tested},
        **stopped,
        "limits": "A role is a test passed on these inputs. It need not be all that the head does on other texts.",
    }


def _finding(found: Finding) -> dict[str, Any]:
    first, ablated = found.evidence[0], found.ablated
    loss = {} if ablated is None else {"lost_without": round(ablated.loss, 2), "of": round(ablated.whole, 2)}
    return {
        "head": found.head,
        "score": round(first.score, 2),
        "interval": [round(first.low, 2), round(first.high, 2)],
        "competing": {first.rival_name: round(first.rival, 2)},
        "p": found.p,
        **loss,
    }


def short_ablation(looked: Look, ablated: Look, controls: Sequence[Look], token: int) -> dict[str, Any]:
    """What a next token loses without some heads, next to what it loses without as many random ones."""
    before = _log_probability(looked, token)
    random = [before - _log_probability(each, token) for each in controls]
    shown = looked.model.processor.tokens_of(torch.tensor([token]))[0].text
    return {
        "token": shown,
        "probability": round(math.exp(before), 3),
        "without": round(math.exp(_log_probability(ablated, token)), 3),
        "lost_nats": round(before - _log_probability(ablated, token), 2),
        **next_tokens(ablated),
        "evidence": {"texts": 1, "lost_without_random_heads": [round(each, 2) for each in random]},
        "limits": "Outputs set to zero, on one text. Later heads may compensate, and depend on what these write.",
    }


def short_why(why: Why) -> dict[str, Any]:
    """One attention weight in words, and the largest contributions of either side."""
    return {
        "sentence": why.sentence,
        "weight": round(why.weight, 3),
        "score_above_mean": round(why.total, 2),
        "key_side": _largest(why.answered),
        "query_side": _largest(why.asked),
        "evidence": {"components": len(why.answered), "relative_error_of_the_sum": float(f"{why.error:.1g}")},
        "limits": "An exact split of one score with norms frozen. That it matters for the output needs an ablation.",
    }


def _largest(shares: Sequence[Share]) -> dict[str, float]:
    ranked = sorted(shares, key=lambda share: -abs(share.value))
    return {share.name: round(share.value, 2) for share in ranked[:MOST_COMPONENTS]}


def short_sources(found: Sources) -> dict[str, Any]:
    """What an answer loses without each document, next to its controls and to attention."""
    return {
        "answers": {text: round(math.exp(float(p)), 3) for text, p in zip(found.answers, found.whole, strict=True)},
        "documents": [
            {key: round(value, 2) if isinstance(value, float) else value for key, value in row.items() if key != "text"}
            for row in found.table().to_pylist()
        ],
        "sentences": found.sentences(),
        "evidence": {"forward_passes": found.passes, "unit": "nats of log-probability lost when hidden"},
        "limits": "Documents that say the same replace each other: hiding one alone then shows no effect.",
    }


def next_tokens(look: Look, count: int = 3) -> dict[str, Any]:
    """The likeliest next tokens; nothing for a model that predicts none."""
    if look.shape.vocabulary is None:
        return {}
    likely = look.predictions(count=count)
    return {"next": [{"token": each.token.text, "probability": round(each.probability, 3)} for each in likely]}


def top_heads(look: Look, count: int) -> dict[str, list[tuple[Head, float]]]:
    """The heads with the highest mean mass on each question, over the rows that can answer it."""
    found: dict[str, list[tuple[Head, float]]] = {}
    for site in look.sites:
        for name, values in look.mean_answers(site).items():
            found.setdefault(name, []).extend((Head(site, index), value) for index, value in enumerate(values.tolist()))
    return {name: sorted(entries, key=lambda entry: -entry[1])[:count] for name, entries in found.items()}


def _log_probability(look: Look, token: int) -> float:
    return float(look.cache.logits_at(-1).double().log_softmax(-1)[token])
