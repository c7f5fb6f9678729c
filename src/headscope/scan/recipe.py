"""The recipe of a scan: what is needed to get the same bytes again (weights, corpus, packing, options, machine)."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch

import headscope
from headscope.errors import InputError
from headscope.files import parse_json, parsing
from headscope.models.modes import device_of
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weight_hash

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Recipe:
    """The content of recipe.json."""

    data: dict[str, Any]

    def to_json(self) -> str:
        return json.dumps(self.data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        with parsing("this recipe.json", "give the complete folder that a scan wrote"):
            read = parse_json(text)
        version = read.get("schema_version") if isinstance(read, dict) else None
        if version != SCHEMA_VERSION:
            raise InputError(f"a recipe of schema version {version}; this headscope reads version {SCHEMA_VERSION}")
        return cls(read)

    @property
    def weights_sha256(self) -> str:
        return str(self.data["model"]["weights_sha256"])

    @property
    def device(self) -> str:
        return str(self.data["machine"]["device"])

    @property
    def threads(self) -> int:
        return int(self.data["machine"]["threads"])

    def with_result(self, **result: Any) -> Recipe:
        """A copy of the recipe with the result of its scan."""
        return Recipe({**self.data, "result": result})

    def with_digests(self, digests: dict[str, str]) -> Recipe:
        """A copy of the recipe with the SHA-256 of the files that hold the census's numbers."""
        return self.with_result(**self.data.get("result", {}), data_sha256=digests)

    def without_digests(self) -> tuple[Recipe, dict[str, str] | None]:
        """The recipe as it was before ``with_digests``, and the digests; None in censuses that had none."""
        result = dict(self.data.get("result", {}))
        digests = result.pop("data_sha256", None)
        return (self if digests is None else self.with_result(**result)), digests

    def differences(self, other: Recipe) -> list[str]:
        """The entries that differ, as in ``context: 128 there, 256 here``. Results are not compared."""
        mine, theirs = (dict(_flat({k: v for k, v in r.data.items() if k != "result"})) for r in (self, other))
        return [
            f"{name}: {theirs.get(name, 'nothing')} there, {mine.get(name, 'nothing')} here"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]


def describe_model(model: OpenModel, weights_sha256: str | None = None) -> dict[str, Any]:
    """The model's name, weights (hashed here unless their hash is given), heads and precision."""
    return {
        "name": model.shape.name,
        "weights_sha256": weights_sha256 or weight_hash(model.model),
        "heads": model.shape.n_heads,
        "sites": {site.name: site.n_heads for site in model.shape.sites.values()},
        "dtype": str(next(model.model.parameters()).dtype).removeprefix("torch."),
    }


def describe_machine(model: OpenModel, threads: int) -> dict[str, Any]:
    """The device, threads and versions that the last digits depend on."""
    device = device_of(model.model)
    # Before, observed one by one, then together and summed by PyTorch: other last digits.
    together = {"sites": "observed and summed together"} if device.type == "cuda" else {}
    return {
        "device": device_name(device),
        **together,
        "threads": threads,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "headscope": headscope.__version__,
        "python": platform.python_version(),
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    if device.type == "cpu":
        return f"cpu, {torch.backends.cpu.get_cpu_capability()}"
    return device.type


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{index}]")
    else:
        yield path, value
