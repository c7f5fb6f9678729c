"""Check the installation: versions, devices, backends and extras, each with the reason where it does not work."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

EXTRAS = {
    "notebook": ("anywidget", "the microscope inside a notebook"),
    "ray": ("ray", "scans on several machines"),
    "gguf": ("gguf accelerate", "models in GGUF files"),
    "data": ("datasets", "corpora from the datasets library"),
    "plot": ("matplotlib", "PNG and PDF pictures"),
    "publish": ("onnxruntime onnx onnxscript", "static sites whose model runs in the browser"),
}


@dataclass(frozen=True)
class _Check:
    """The result of one check."""

    name: str
    works: bool
    detail: str


def examine() -> list[_Check]:
    """Run every check."""
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    names = ("headscope", "torch", "transformers", "safetensors", "pyarrow", "fastapi", "uvicorn", "typer")
    versions = [_Check(name, True, metadata.version(name)) for name in names]
    return [_Check("python", True, system), *versions, *_devices(), *_parts(), *_extras()]


def _devices() -> list[_Check]:
    import torch

    from headscope.attention.engine import refusals
    from headscope.attention.scores import Scores

    cuda = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    triton = util.find_spec("triton") is not None  # PyTorch installs it where it can run
    no_triton = "not installed: the fused backend cannot run, blockwise is used instead"
    device = "cuda" if cuda else "cpu"
    q = torch.zeros(1, 1, 2, 64, device=device, dtype=torch.float16 if device == "cuda" else torch.float32)
    return [
        _Check("cuda", bool(cuda), ", ".join(cuda) or "no CUDA device: everything runs on the CPU"),
        _Check("triton", triton, metadata.version("triton") if triton else no_triton),
        *(
            _Check(f"backend {name}", reason is None, reason or f"works on {device}")
            for name, reason in refusals(q, q, q, Scores()).items()
        ),
    ]


def _parts() -> list[_Check]:
    from headscope.scope import EMBEDDED

    model, page = (EMBEDDED / "config.json").is_file(), (Path(__file__).parent / "static" / "index.html").is_file()
    opens, missing = "opens with no download", "missing from this copy; reinstall headscope"
    built, not_built = "built; opens with `headscope`", "not built in this copy; run `make web`, which needs Node 20"
    return [
        _Check("embedded model", model, opens if model else missing),
        _Check("page", page, built if page else not_built),
    ]


def _extras() -> list[_Check]:
    found = []
    for extra, (packages, use) in EXTRAS.items():
        package = packages.split()[0]
        here = util.find_spec(package) is not None
        detail = f"{package} {metadata.version(package)}: {use}" if here else f"{use}: pip install {packages}"
        found.append(_Check(f"extra {extra}", here, detail))
    return found
