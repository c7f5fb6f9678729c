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
    return [_python(), *_packages(), *_devices(), _triton(), *_backends(), _embedded(), _page(), *_extras()]


def _python() -> _Check:
    return _Check("python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages() -> list[_Check]:
    names = ("headscope", "torch", "transformers", "safetensors", "pyarrow", "fastapi", "uvicorn", "typer")
    return [_Check(name, True, metadata.version(name)) for name in names]


def _devices() -> list[_Check]:
    import torch

    if not torch.cuda.is_available():
        return [_Check("cuda", False, "no CUDA device: everything runs on the CPU")]
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return [_Check("cuda", True, ", ".join(names))]


def _triton() -> _Check:
    """The language of the fused backend; PyTorch installs it where it can run."""
    if util.find_spec("triton") is None:
        return _Check("triton", False, "not installed: the fused backend cannot run, blockwise is used instead")
    return _Check("triton", True, metadata.version("triton"))


def _backends() -> list[_Check]:
    import torch

    from headscope.attention.engine import refusals
    from headscope.attention.scores import Scores

    device = "cuda" if torch.cuda.is_available() else "cpu"
    q = torch.zeros(1, 1, 2, 64, device=device, dtype=torch.float16 if device == "cuda" else torch.float32)
    return [
        _Check(f"backend {name}", reason is None, reason or f"works on {device}")
        for name, reason in refusals(q, q, q, Scores()).items()
    ]


def _embedded() -> _Check:
    from headscope.scope import EMBEDDED

    here = (EMBEDDED / "config.json").is_file()
    detail = "opens with no download" if here else "missing from this copy; reinstall headscope"
    return _Check("embedded model", here, detail)


def _page() -> _Check:
    here = (Path(__file__).parent / "static" / "index.html").is_file()
    detail = "built; opens with `headscope`" if here else "not built in this copy; run `make web`, which needs Node 20"
    return _Check("page", here, detail)


def _extras() -> list[_Check]:
    found = []
    for extra, (packages, use) in EXTRAS.items():
        package = packages.split()[0]
        here = util.find_spec(package) is not None
        detail = f"{package} {metadata.version(package)}: {use}" if here else f"{use}: pip install {packages}"
        found.append(_Check(f"extra {extra}", here, detail))
    return found
