"""How to cite headscope, in the Citation File Format (https://citation-file-format.github.io)."""

from __future__ import annotations

from headscope import __version__

FILE = "CITATION.cff"


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
