"""Planted faults change one place each, and are the same for the same seed."""

from __future__ import annotations

import ast

from bench.mutants import PACKAGES, ROOT, elsewhere_tests, faults, folder_tests, mutated, nearest_tests, places

SOURCE = """
def f(a: int = 1, b=2):
    if a < b and a:
        g(a)
    raise ValueError(f"no {a + b}")
"""
CHANGED = {"a <= b", "a < b or a", "a: int=2", "b=3", "if not (a < b and a):", "pass", "a - b"}


def test_every_place_gives_one_other_program() -> None:
    count = len(list(places(ast.parse(SOURCE))))
    made = [mutated(SOURCE, at)[0] for at in range(count)]
    plain = ast.unparse(ast.parse(SOURCE))
    assert len({*made, plain}) == count + 1
    assert {part for part in CHANGED if any(part in text for text in made)} == CHANGED
    for text in made:
        different = sum(one != other for one, other in zip(text.splitlines(), plain.splitlines(), strict=True))
        assert different == 1


def test_faults_are_drawn_by_seed() -> None:
    for package in PACKAGES:
        drawn = faults(package, 0)
        assert drawn == faults(package, 0) != faults(package, 1)
        assert sorted(drawn) == sorted(faults(package, 1))


def test_the_nearest_tests_are_those_of_the_module() -> None:
    assert nearest_tests(ROOT / "src/headscope/attention/masks.py")[0] == "tests/attention/test_masks.py"
    assert "tests/security/test_class.py" in nearest_tests(ROOT / "src/headscope/app/server/routes/classroom.py")


def test_tests_of_other_folders_are_those_that_name_the_module_or_one_that_imports_it() -> None:
    isolated = ROOT / "src/headscope/models/inputs/isolated.py"
    assert "tests/attack/test_models_slow_rules.py" in nearest_tests(isolated)
    assert "tests/attack/test_models_tokenizers.py" in elsewhere_tests(isolated)
    assert not {*elsewhere_tests(isolated)} & {*nearest_tests(isolated), *folder_tests(isolated)}
