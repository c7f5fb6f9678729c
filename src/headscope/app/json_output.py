"""Looks, ablations, models and censuses as plain data for ``--json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch.nn.functional as F

from headscope.errors import HeadscopeError
from headscope.heads.look.look import Look
from headscope.heads.short import top_heads
from headscope.names import Head
from headscope.scope import Generated, Scope


def look_json(look: Look, head: str | None = None) -> dict[str, Any]:
    """Tokens, predictions, and every head's mean score on every question; one head's pattern if it is named."""
    report: dict[str, Any] = {
        "model": look.shape.name,
        "tokens": [token.text for token in look.tokens],
        "heads": {str(entry): {} for entry in look.shape.heads() if entry.site in look.sites},
    }
    if look.shape.vocabulary is not None:
        report["predictions"] = [
            {"token": each.token.text, "id": each.token.id, "probability": each.probability}
            for each in look.predictions()
        ]
    for question, ranked in top_heads(look, look.shape.n_heads).items():
        for entry, value in ranked:
            report["heads"][str(entry)][question] = value
    for site in look.sites:
        found = look.mean_traits(site)
        for name, key in (("entropy", "entropy_nats"), ("distance", "distance")):
            for index, value in enumerate(found[name].tolist() if found else ()):
                report["heads"][f"{site}.{index}"][key] = value
    if head is not None:
        report["pattern"] = look.pattern(head).tolist()
    return report


def questions_json(answers: Mapping[str, Mapping[Head, float]]) -> dict[str, Any]:
    """Every head's score on the user's own questions, where there are any."""
    if not answers:
        return {}
    return {"own_questions": {name: {str(head): mass for head, mass in m.items()} for name, m in answers.items()}}


def ablation_json(before: Look, after: Look, heads: Sequence[str]) -> dict[str, Any]:
    """The next token with and without some heads, and the KL divergence of the whole distribution."""
    was, now = before.cache.logits_at(-1).float().log_softmax(-1), after.cache.logits_at(-1).float().log_softmax(-1)
    likely = {p.token.id: p for p in [*before.predictions(count=6), *after.predictions(count=3)]}
    return {
        "model": before.shape.name,
        "heads": list(heads),
        "kl_nats": float(F.kl_div(now, was, log_target=True, reduction="sum")),
        "next": [
            {"token": p.token.text, "with": float(was[token].exp()), "without": float(now[token].exp())}
            for token, p in likely.items()
        ],
    }


def generated_json(prompt: str, made: Generated) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "text": made.text,
        "tokens": [
            {"text": token.text, "id": token.id, "probability": float(step.model[token.id])}
            for token, step in zip(made.tokens, made.steps, strict=True)
        ],
    }


def model_json(scope: Scope) -> dict[str, Any]:
    """A model's shape, notes and self-check."""
    shape = scope.shape
    return {
        "model": shape.name,
        "d_model": shape.d_model,
        "vocabulary": shape.vocabulary,
        "context": shape.context,
        "heads": shape.n_heads,
        "sites": [asdict(site) for site in shape.sites.values()],
        "notes": list(scope.notes),
        "check": str(scope.model.self_check),
    }


def error_json(error: HeadscopeError) -> dict[str, Any]:
    """An error for a program: its kind, what was wrong, and where to read what to do."""
    kind = type(error).__name__
    return {"error": {"kind": kind, "message": str(error), "try": f"headscope explain {kind}"}}
