"""Compile rules into attention heads: models in which every head's job is known."""

from headscope.lab.compile.model import Compiled, CompileOptions, compile_program
from headscope.lab.compile.programs import PROGRAMS, Program

__all__ = ["PROGRAMS", "CompileOptions", "Compiled", "Program", "compile_program"]
