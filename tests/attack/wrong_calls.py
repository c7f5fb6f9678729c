"""Call every public function with wrong arguments; print those that end in an error that is not ours, as JSON.

A process of its own: the tests' check of annotations at every call would answer before headscope does.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import headscope
from headscope import attention
from headscope.attention import Scores
from headscope.errors import HeadscopeError
from headscope.heads.edits.edit import Edit
from headscope.heads.look.look import Look
from headscope.scope import Scope

TEXT, OTHER = "The cat and the dog. The cat and", "The cat and the man. The cat and"
Q = torch.zeros(1, 2, 3, 4)
WRONG: dict[str, Any] = {
    "object": object(), "word": "zzz", "negative": -77, "huge": 10**12, "nan": float("nan"), "half": 3.5, "none": None,
    "empty list": [], "list": ["zzz"], "numbers": [99.5], "dict": {"a": 1}, "bytes": b"x", "head": "99.1", "empty": "",
    "nul": "a\0b", "tensor": torch.zeros(2, 3, 5), "function": lambda *given: None,
}  # fmt: skip
NEVER = ("object", "dict")  # fits no parameter but one that takes anything
MADE_BY_OTHERS = {"Mask", "Observation", "Look.app", "Look.questions", "Scope.close"}
"""What functions make or the package calls; nobody passes arguments to them."""


def valid(scope: Scope, look: Look) -> dict[str, dict[str, Any]]:
    """Arguments that fit, of every public function."""
    options = headscope.RoleOptions(inputs=8, roles=("itself",))
    mha, text, head, site = headscope.MultiHeadAttention(8, 2), {"text": TEXT}, {"head": "5.6"}, {"site": "5"}
    of_scope: dict[str, dict[str, Any]] = {
        "look": text, "observe": text, "steps": {"run": lambda module: None},
        "edit": {"edits": headscope.ablate("5.6")},
        "generate": {**text, "n_tokens": 2}, "importance": {"texts": [TEXT], "how": "gradient"}, "qk": head, "ov": head,
        "patching": {"clean": TEXT, "corrupted": OTHER, "metric": (" dog", " man"), "how": "attribution"},
        "group": head,
        "prune": {"heads": ["5.6"]}, "heads": {"options": options}, "where": {"texts": [TEXT]},
        "scan": {"corpus": [TEXT]},
        "composition": {"writer": "4.3", "reader": "5.6", "through": "k"}, "compositions": {"through": "k"},
        "circuit": {"clean": [TEXT], "corrupted": [OTHER], "answers": [(" dog", " man")]},
        "sources": {"documents": ["Anna lives in Rome."], "question": "Anna lives in"},
    }  # fmt: skip
    of_look: dict[str, dict[str, Any]] = {
        "read": {}, "observe": {}, "save": {"path": "b.headscope"}, "ask": {"rule": headscope.token_class("a", "b")},
        "pattern": head, "weights": head, "where": {}, "table": {}, "to_pandas": {}, "matrix": {"statistic": "entropy"},
        "plot": {"what": "5.6"}, "save_html": {"path": "a.html"}, "pooled": {**head, "shape": (2, 2)}, "source": head,
        "site_weights": {**site, "rows": slice(0, 2)}, "value_norms": head, "contributions": {"position": -1},
        "logit_attribution": {"token": " dog"}, "why": head, "why_row": head, "trace": {"token": " dog"},
        "predictions": {},
        "classes": {}, "position": {"position": -1}, "span": {"text": "dog"}, "logit_lens": {},
        "token_id": {"token": " dog"}, "find": head,
    } | dict.fromkeys(
        ("query_tokens", "key_tokens", "statistics", "mean_answers", "mean_traits", "sides", "visible_keys", "patterns",
         "site_source", "z"), site,
    )  # fmt: skip
    labels, tensors = torch.arange(3), {"q": Q, "k": Q, "v": Q}
    return {
        "load": {"source": None},
        "open_look": {"path": "a.headscope"}, "random_heads": {"scope": scope, "like": ["5.6"]},
        "compare": {"before": "nowhere", "after": "nowhere"}, "ablate": {"what": "5.6"}, "hide": {"span": [1]},
        "force": {"head": "5.6", "pattern": torch.eye(len(look.tokens))}, "scale": {"heads": "5.6", "factor": 2.0},
        "knock_out": {"head": "5.6", "query": 2, "key": 1}, "path": {"writer": "4.3", "reader": "5.6"},
        "patch": {"heads": "5.6", "positions": 1, "from_look": look}, "progress": {"shown": False},
        "steer": {"point": "resid_pre 3", "vector": torch.zeros(320)}, "token_class": {"name": "a", "key": "b"},
        "show": {}, "Head": {"site": "5", "head": 6}, "MultiHeadAttention": {"d_model": 8, "n_heads": 2},
        "LabelRule": {"name": "a", "query": lambda tokens: tokens, "key": lambda tokens: tokens}, "RoleOptions": {},
        "Question": {"query": labels, "key": labels}, "Sampling": {}, "ScanOptions": {}, "StepOptions": {},
        "TrainingRecorder": {"model": scope.hf_model}, "Alibi": {"slopes": torch.ones(2)},
        "KVCache": {"like": mha, "capacity": 4}, "Relative": {"table": torch.zeros(2, 5), "zero": 2},
        "Scores": {},
        "Rope": {"d_rotary": 4}, "causal": {}, "full": {}, "choose": {**tensors, "scores": Scores()},
        "observe": tensors,
        "refusals": {**tensors, "scores": Scores()}, "dense": {"mask": torch.ones(3, 3, dtype=torch.bool)},
        "documents": {"ids": [0, 0, 1]}, "padding": {"lengths": [3]}, "window": {"width": 2},
        **{f"Scope.{name}": given for name, given in of_scope.items()},
        **{f"Look.{name}": given for name, given in of_look.items()},
    }  # fmt: skip


def public(scope: Scope, look: Look) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, class and method, methods bound."""
    for module in (headscope, attention):
        yield from ((name, getattr(module, name)) for name in module.__all__ if callable(getattr(module, name)))
    for one in (scope, look):
        methods = (name for name, each in vars(type(one)).items() if inspect.isfunction(each) and name[0] != "_")
        yield from ((f"{type(one).__name__}.{name}", getattr(one, name)) for name in methods)


def cases(name: str, call: Callable[..., Any], given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Wrong arguments of a function: one too many, none, and every wrong value in place of each."""
    yield "unknown keyword", {**given, "zzz": 1}
    if given:
        yield "missing", {}
    for parameter in inspect.signature(call).parameters.values():
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
            for kind, value in WRONG.items():
                if not (kind == "none" and parameter.default is None):
                    yield f"{parameter.name}={kind}", {**given, parameter.name: value}


def outcome(scope: Scope, call: Callable[..., Any], given: dict[str, Any]) -> str:
    """What a call ends in: an error of ours, another error, or nothing wrong. Edits are tried on a text."""
    takes = inspect.signature(call).parameters
    several = [
        value for name, value in given.items() if name in takes and takes[name].kind is inspect.Parameter.VAR_POSITIONAL
    ]
    named = {name: value for name, value in given.items() if not (several and given[name] is several[0])}
    try:
        made = call(*several, **named)
        if isinstance(made, Edit):
            with scope.edit(made):
                scope.look(TEXT)
        return "accepted"
    except HeadscopeError as error:
        return "" if str(error).strip() else "an error without words"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:120]} ({Path(last.filename).name}:{last.lineno})"


def main() -> None:
    warnings.simplefilter("ignore")
    headscope.progress(False)
    os.chdir(tempfile.mkdtemp())
    scope = headscope.load()
    look = scope.look(TEXT)
    look.save("a.headscope")
    fit, found = valid(scope, look), {}
    for name, call in public(scope, look):
        if name in MADE_BY_OTHERS:
            continue
        for label, given in cases(name, call, fit.get(name, {})):
            if name == "show" and label != "what=object":
                continue  # it would serve a page
            result = outcome(scope, call, given)
            takes = str(inspect.signature(call).parameters.get(label.partition("=")[0], ""))
            anything = "Any" in takes or "object" in takes
            if result not in ("", "accepted") or (
                result == "accepted" and (label == "unknown keyword" or (label.endswith(NEVER) and not anything))
            ):
                found[f"{name}({label})"] = result
    sys.stdout.write(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
