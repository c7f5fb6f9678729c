"""Importing headscope loads nothing heavy and does nothing; every public name is there on first use."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import pytest

import headscope

HEAVY = ("torch", "transformers", "numpy", "fastapi", "uvicorn", "pyarrow", "ray", "triton", "typer")


def loaded_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(' '.join(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_import_headscope_loads_neither_torch_nor_transformers() -> None:
    assert loaded_by("import headscope") == set()


def test_the_command_line_imports_only_typer() -> None:
    assert loaded_by("import headscope.cli") == set()
    assert loaded_by("import headscope.cli.commands") == {"typer"}


def test_help_is_printed_without_importing_rich() -> None:
    script = """
import sys
from headscope.cli import main
sys.argv = ["headscope", "--help"]
try:
    main()
except SystemExit:
    print("rich" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_attention_loads_torch_but_not_transformers() -> None:
    loaded = loaded_by("import headscope.attention")
    assert "torch" in loaded
    assert not loaded & {"transformers", "fastapi", "uvicorn", "pyarrow", "ray", "typer"}


@pytest.mark.parametrize("name", [name for name in headscope.__all__ if name != "__version__"])
def test_every_public_name_is_there_on_first_use(name: str) -> None:
    assert getattr(headscope, name).__name__ == name
    assert name in dir(headscope)


def test_a_name_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'attend'; it has .*MultiHeadAttention"):
        headscope.attend  # noqa: B018


def test_the_package_is_typed() -> None:
    assert files("headscope").joinpath("py.typed").is_file()
