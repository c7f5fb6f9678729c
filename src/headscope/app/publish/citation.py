"""How to cite headscope (https://citation-file-format.github.io), and the recipe that a site was made by."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from headscope import __version__

FILE = "CITATION.cff"
MADE_WITH = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime")


def recipe(dtype: str | None) -> str:
    """The command that makes such a site again, and the versions that its numbers depend on."""
    versions = [f"{name} {metadata.version(name)}" for name in MADE_WITH if find_spec(name) is not None]
    return ", ".join([f"headscope publish{f' --dtype {dtype}' if dtype else ''}", *versions])


def citation() -> str:
    """The file: the project has it at its root, and every site that was made with it."""
    return f"""\
cff-version: 1.2.0
message: If you use headscope or a site made with it, please cite it as below.
type: software
title: "headscope: a microscope for attention heads"
abstract: Build, see, measure and change every attention head of a transformer.
authors:
  - name: The headscope authors
version: {__version__}
license: Apache-2.0
keywords:
  - attention
  - transformers
  - interpretability
  - education
"""
