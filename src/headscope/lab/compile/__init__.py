"""Compile rules into attention heads: models in which every head's job is known."""

from headscope.lab.compile.model import Compiled, CompileOptions, compile_program
from headscope.lab.compile.programs import Program

__all__ = ["CompileOptions", "Compiled", "Program", "compile_program"]
