"""A small model and the rules fitted to its heads, for all tests of a file."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.heads.conftest import small_llama

import headscope
from headscope.heads.rules.report import Rules
from headscope.heads.rules.run import RuleOptions
from headscope.scope import Scope

OPTIONS = RuleOptions(fit_rows=48, choose_rows=32)


def texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(3, 40, (40 + 3 * n,), generator=generator).tolist() for n in range(6)]


def without_means(rules: Rules) -> Rules:
    """The rules as files of earlier versions have them."""
    return replace(rules, heads=tuple(replace(head, mean_z=()) for head in rules))


@pytest.fixture(scope="module")
def opened() -> Scope:
    return headscope.load(small_llama())


@pytest.fixture(scope="module")
def rules(opened: Scope) -> Rules:
    return opened.rules(texts(), OPTIONS)
