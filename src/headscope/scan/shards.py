"""The folder of a scan: packed rows, one tally per shard, and the census, each file written atomically.

A shard is finished when its tally is there. Everything else can be made again, so a killed scan resumes and ends with
the same bytes.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import headscope
from headscope.errors import InputError
from headscope.files import UNFINISHED, parsing, sole_writer, write_atomic
from headscope.models.modes import device_of
from headscope.models.recording import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.scan.corpus.packing import PackedRows
from headscope.scan.tally import Tally

RESUME = "finished shards are kept: scan again into the same folder when this is solved"

_OWN = re.compile(r"(\d{6}\.rows\.safetensors|packed\.json)(\.headscope\.part)?")

MIN_DOCUMENTS = 20
"""With fewer documents than this, a bootstrap over documents says little."""


@dataclass(frozen=True)
class Packing:
    """What packing a corpus gave: the number of shards, rows, documents, pieces and tokens, and a hash of the rows."""

    shards: int
    rows: int
    documents: int
    pieces: int
    tokens: int
    sha256: str
    problems: list[str]

    @property
    def unit(self) -> str:
        """What the bootstrap draws: documents, or the pieces they were split into where documents are too few."""
        return "document" if self.documents >= MIN_DOCUMENTS else "piece"


class ScanFolder:
    """One scan's folder, written by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"
        self.recipe_file = path / "recipe.json"

    @property
    def finished(self) -> bool:
        """Whether the census is complete and its work folder removed."""
        return (self.path / "census.parquet").exists() and not self.work.exists()

    def rows_file(self, shard: int) -> Path:
        return self.work / f"{shard:06d}.rows.safetensors"

    def tally_file(self, shard: int) -> Path:
        return self.work / f"{shard:06d}.tally.safetensors"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder against other scans. The system releases the lock when a process dies."""
        with ExitStack() as held:
            try:
                refusal = f"another scan is writing into {self.path}; wait for it, or choose another folder"
                held.enter_context(sole_writer(self.path, refusal))
                if not os.access(self.path, os.W_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                if not self.recipe_file.exists():
                    self.check_free()  # before anything is written into a folder of another's
            except OSError as error:
                raise InputError(f"{self.path} cannot be written ({error.strerror}); choose another folder") from error
            yield

    def recipe(self) -> Recipe | None:
        """The recipe of the scan in this folder, if there is one."""
        return Recipe.from_json(self.recipe_file.read_text(encoding="utf-8")) if self.recipe_file.exists() else None

    def check_free(self) -> None:
        """Refuse a folder without a recipe that holds anything but the rows of a scan stopped before its recipe."""
        known = f"recipe.json{UNFINISHED}"
        strange = sorted(file.name for file in self.path.iterdir() if file.name != known)
        if strange == [self.work.name] and all(_OWN.fullmatch(file.name) for file in self.work.glob("*")):
            return
        if strange:
            raise InputError(f"{self.path} holds {strange[0]}, which is not a scan's; choose an empty folder")

    def start(self, recipe: Recipe) -> None:
        """Begin a scan, or resume the one in the folder if it has the same recipe."""
        there = self.recipe()
        if there is None:
            self.check_free()
            self.write(self.recipe_file, recipe.to_json().encode())
        elif different := recipe.differences(there):
            raise InputError(
                f"{self.path} holds a scan with another recipe ({'; '.join(different[:4])}"
                f"{'; …' if len(different) > 4 else ''}); use that one, or choose another folder"
            )

    def write(self, path: Path, data: bytes) -> None:
        write_atomic(path, data, RESUME)

    def packing(self) -> Packing | None:
        """What packing gave, if it was finished."""
        file = self.work / "packed.json"
        if not file.exists():
            return None
        with parsing(str(file), f"remove {self.work} and scan again"):
            packing = Packing(**json.loads(file.read_text(encoding="utf-8")))
            there = sorted(self.work.glob("*.rows.safetensors"))
            counts = (packing.shards, packing.rows, packing.documents, packing.pieces, packing.tokens)
            if (
                not all(type(count) is int for count in counts)
                or packing.shards != len(there)
                or type(packing.problems) is not list
            ):
                raise ValueError(f"it lists {packing.shards} shards, and there are {len(there)}")
            digests = (hashlib.sha256(file.read_bytes()).hexdigest() for file in there)
            if packing.sha256 != hashlib.sha256("".join(digests).encode()).hexdigest():
                raise ValueError("the rows stored with it are not those that were packed")
            return packing

    def packed_sha256(self) -> str:
        """The hash of the rows of the scan in this folder, finished or not."""
        packing, recipe = self.packing(), self.recipe()
        if packing is not None:
            return packing.sha256
        return str(recipe.data.get("result", {}).get("sha256", "")) if recipe is not None else ""

    def save_rows(self, shard: int, rows: PackedRows) -> str:
        """Write the rows of a shard, unless they are there; the hash of the file. A tally of other rows is removed."""
        data, file = rows.to_bytes(), self.rows_file(shard)
        if not file.exists() or file.read_bytes() != data:
            self.tally_file(shard).unlink(missing_ok=True)
            self.write(file, data)
        return hashlib.sha256(data).hexdigest()

    def save_packing(self, packing: Packing) -> None:
        self.write(self.work / "packed.json", json.dumps(asdict(packing), sort_keys=True).encode())

    def remove_rows(self, after: int = 0) -> None:
        """Remove the rows of an unfinished packing, and what was measured of them, from a shard on."""
        self.work.mkdir(exist_ok=True)
        for file in self.work.iterdir():
            number = file.name.partition(".")[0]
            if not number.isdecimal() or int(number) >= after:
                file.unlink()

    def reset(self) -> None:
        """Remove what a scan that found no text has written."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.recipe_file.unlink(missing_ok=True)

    def n_tallies(self) -> int:
        """How many shards have been measured."""
        return len(list(self.work.glob("*.tally.safetensors")))

    def missing_shards(self, packing: Packing) -> list[int]:
        return [shard for shard in range(packing.shards) if not self.tally_file(shard).exists()]

    def merged_tally(self, packing: Packing) -> Tally:
        """Merge the tallies of all shards in order: floating-point sums depend on it."""
        return functools.reduce(Tally.merge, (self._tally(shard) for shard in range(packing.shards)))

    def rows(self, shard: int) -> PackedRows:
        """The packed rows of a shard."""
        with parsing(str(self.rows_file(shard)), f"remove {self.work} and scan again"):
            return PackedRows.from_bytes(self.rows_file(shard).read_bytes())

    def _tally(self, shard: int) -> Tally:
        file = self.tally_file(shard)
        with parsing(str(file), "remove that file, and the same scan makes it again"):
            return Tally.from_bytes(file.read_bytes())

    def remove_work(self) -> None:
        """Remove the work folder. It is renamed first, so that a kill never leaves half of one."""
        gone = self.path / ".gone"
        shutil.rmtree(gone, ignore_errors=True)
        if self.work.exists():
            self.work.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


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
            read = json.loads(text)
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
        """The entries that differ, such as ``context: 128 there, 256 here``. Results are not compared."""
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
    return {
        "device": device_name(device_of(model.model)),
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
