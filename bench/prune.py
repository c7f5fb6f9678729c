"""A pruned model beside the whole one on a CPU: python bench/prune.py [--threads 1] [--seconds 20]

Half of the heads are removed, evenly (a config can say that) and wherever they matter least (it cannot). Timed are the
attention modules alone, with the inputs that they get in a pass, and the whole pass. Models: the embedded one, and
GPT-2's shape with random weights. The loss of the embedded model is on text that is not what heads were chosen on.
"""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import interleaved, machine, write

from headscope.heads.look.importance import text_loss
from headscope.heads.pruning import Pruned
from headscope.scope import Scope, load

RESULTS = Path(__file__).parent / "results" / "prune-cpu.json"
LENGTH = 512


def gpt2_shape() -> Scope:
    torch.manual_seed(0)
    return load(transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval(), name="GPT-2's shape")


def attention_alone(scope: Scope, ids: torch.Tensor) -> Callable[[], None]:
    """Every attention module run again on what it was given in one pass, with the model's own sdpa."""
    modules, given = list(scope.model.site_modules().values()), []

    def keep(module: Any, args: Any, kwargs: Any) -> None:
        given.append((module, args, {**kwargs, "past_key_values": None}))

    hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in modules]
    model = scope.model.model
    with torch.no_grad():
        model(ids, use_cache=False)
    for hook in hooks:
        hook.remove()
    calls = [(m, args, {k: v for k, v in kwargs.items() if k in _takes(m)}) for m, args, kwargs in given]

    def run() -> None:
        with torch.no_grad():
            for module, args, kwargs in calls:
                module(*args, **kwargs)

    return run


def _takes(module: torch.nn.Module) -> set[str]:
    return set(inspect.signature(module.forward).parameters)


def whole_pass(scope: Scope, ids: torch.Tensor) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            scope.model.model(ids, use_cache=False)

    return run


def chosen_on() -> list[str]:
    """Text that every copy of Python has: source and docstrings of its standard library."""
    return textwrap.wrap(inspect.getsource(textwrap).replace("\n", " "), 700)[:6]


def judged_on() -> list[str]:
    return textwrap.wrap(inspect.getsource(argparse).replace("\n", " "), 700)[4:10]


def rows(name: str, scope: Scope, seconds: float) -> list[dict[str, Any]]:
    ids = torch.randint(10, 8000, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    texts: list[Any] = chosen_on() if name == "embedded" else [ids[0, :64].tolist()]
    pruned = {
        "even half": scope.prune(keep=0.5, texts=texts, even=True),
        "any half": scope.prune(keep=0.5, texts=texts),
    }
    scopes = {"whole": scope, **{way: Scope(each.model) for way, each in pruned.items()}}
    judged = {way: text_loss(each.model, judged_on()) if name == "embedded" else None for way, each in scopes.items()}
    for each in scopes.values():
        each.close()
    found = []
    for part, make in (("attention", attention_alone), ("whole pass", whole_pass)):
        timings = interleaved({way: make(each, ids) for way, each in scopes.items()}, seconds=seconds)
        for way, timing in timings.items():
            share = timing.median_ms / timings["whole"].median_ms
            row = {"model": name, "part": part, "heads": way, "time": timing, "share_of_whole": round(share, 3)}
            found.append(row | _about(pruned.get(way), judged[way]))
            print(f"{name:14} {part:11} {way:10} {timing}  {share:.2f} of the whole", flush=True)
    return found


def _about(pruned: Pruned | None, loss: float | None) -> dict[str, Any]:
    about: dict[str, Any] = {} if loss is None else {"loss_nats": round(loss, 4)}
    if pruned is not None:
        before, after = pruned.before, pruned.after
        about |= {
            "heads_left": f"{after.heads} of {before.heads}",
            "kv_heads_left": f"{after.kv_heads} of {before.kv_heads}",
            "attention_parameters": round(after.attention_parameters / before.attention_parameters, 3),
            "attention_flops": round(after.attention_flops / before.attention_flops, 3),
        }
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    about = machine()
    found = rows("embedded", load(), given.seconds)
    found += rows("GPT-2's shape", gpt2_shape(), given.seconds)
    write(RESULTS, benchmark="prune", about={**about, "tokens": LENGTH}, rows=found)


if __name__ == "__main__":
    main()
