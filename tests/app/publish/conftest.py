"""The small model as a published graph, exported once for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

from headscope.app.publish.graph import Exported, export
from headscope.app.publish.verify import GRAPH
from headscope.app.publish.weights import FILE, Stored, store
from headscope.scope import Scope


@pytest.fixture(scope="session")
def exported(scope: Scope) -> Exported:
    with unchecked_shapes():
        return export(scope.model)


@pytest.fixture(scope="session")
def stored(scope: Scope, exported: Exported) -> Stored:
    return store(copied(exported), scope.model, "float16")


@pytest.fixture(scope="session")
def folder(stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph and its weights in half precision."""
    return written(stored, tmp_path_factory.mktemp("published"))


@contextmanager
def unchecked_shapes() -> Iterator[None]:
    """While a model is exported its lengths are symbols, which the tests' check of shapes takes for no number."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def copied(exported: Exported) -> Any:
    """The graph, to be changed: ``store`` takes its weights out."""
    import onnx

    graph = onnx.ModelProto()
    graph.CopyFrom(exported.graph)
    return graph


def written(stored: Stored, folder: Path) -> Path:
    (folder / GRAPH).write_bytes(stored.graph.SerializeToString())
    (folder / FILE).write_bytes(stored.weights)
    return folder
