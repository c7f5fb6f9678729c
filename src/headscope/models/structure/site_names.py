"""Name sites by what tells their module paths apart: layer numbers, the stack, and `cross`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from headscope.names import AttentionKind

# A path belongs to the first of these stacks that has one of its words before the path's first number.
_STACKS = {
    "vision": ("vision", "visual", "image", "vit", "video"),
    "audio": ("audio", "speech", "sound"),
    "decoder": ("decoder",),
    "encoder": ("encoder",),
    "text": ("text",),
}


def name_sites(paths: Sequence[str], kinds: Mapping[str, AttentionKind], stacks: Sequence[str]) -> dict[str, str]:
    """A name for each path. ``stacks`` are the words that this model needs to tell its stacks apart."""
    varying = _varying_numbers(paths)
    named = {
        path: _name(path, varying[_template(path)], stacks) + (".cross" if kinds.get(path) == "cross" else "")
        for path in paths
    }
    sharing: dict[str, list[str]] = {}
    for path, name in named.items():
        sharing.setdefault(name, []).append(path)
    longer = {path: _longer(path, named[path], sharing[named[path]]) for path in paths}
    return {path: name if list(longer.values()).count(name) == 1 else path for path, name in longer.items()}


def names_of_layers(paths: Collection[str]) -> dict[str, str]:
    """Numbers of layers as names, where each layer has one of these paths; no names elsewhere."""
    alike = len({_template(path) for path in paths}) == 1 and all(_numbers(path) for path in paths)
    return name_sites(sorted(paths), {}, []) if alike else {}


def _template(path: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _numbers(path: str) -> list[str]:
    return [word for word in path.split(".") if word.isdigit()]


def _varying_numbers(paths: Sequence[str]) -> dict[str, list[int]]:
    """For each path template, which of its numbers tell sites apart: the first always, others if they differ."""
    groups: dict[str, list[list[str]]] = {}
    for path in paths:
        groups.setdefault(_template(path), []).append(_numbers(path))
    return {
        template: [index for index in range(len(rows[0])) if index == 0 or len({row[index] for row in rows}) > 1]
        for template, rows in groups.items()
    }


def _name(path: str, varying: list[int], stacks: Sequence[str]) -> str:
    numbers = _numbers(path)
    layer = ".".join(numbers[index] for index in varying) or path.split(".")[-1]
    stack = stack_of(path, stacks)
    return f"{stack}.{layer}" if stack else layer


def stack_of(path: str, stacks: Sequence[str]) -> str:
    """Which of these stacks a path belongs to; "" for none."""
    words = re.split(r"\.\d+(?:\.|$)", path)[0].lower()
    return next((stack for stack in stacks if any(mark in words for mark in _STACKS[stack])), "")


def _longer(path: str, name: str, sharing: list[str]) -> str:
    """Where several sites share a name, add the first word that tells their paths apart, before or after it."""
    if len(sharing) == 1:
        return name
    words = [other.split(".") for other in sharing]
    mine = path.split(".")
    for index, word in enumerate(mine):
        if len({other[index] if index < len(other) else "" for other in words}) > 1 and not word.isdigit():
            before_layer = not any(earlier.isdigit() for earlier in mine[:index])
            return f"{word}.{name}" if before_layer else f"{name}.{word}"
    return path
