"""The page's translated errors are translations of errors that the program raises, word for word."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import headscope

SOURCE = Path(headscope.__file__).parent
CATALOGUES = sorted(Path(__file__).parents[2].glob("web/src/words/*/errors.ts"))
TEACHING = (SOURCE / "app" / "pages" / "course", SOURCE / "app" / "server" / "routes" / "classroom.py")


def _without_names(text: str) -> str:
    return re.sub(r"\{\d\}", "{}", text)


def _sentence(node: ast.AST) -> str | None:
    """A string, or an f-string with ``{}`` for each value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)  # type: ignore[misc]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _sentences(file: Path) -> set[str]:
    found = (_sentence(node) for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return {sentence for sentence in found if sentence}


def _translated(catalogue: Path) -> set[str]:
    keys = re.findall(r'^  (?:"(.+?)"|(\w+)):', catalogue.read_text(encoding="utf-8"), flags=re.M)
    return {_without_names(quoted or bare) for quoted, bare in keys}


def test_every_translated_error_is_one_that_the_program_raises() -> None:
    raised: set[str] = set().union(*(_sentences(file) for file in SOURCE.rglob("*.py")))
    raised |= {"the text" + each.removeprefix("{}") for each in raised if each.startswith("{} has {}")}
    assert CATALOGUES
    for catalogue in CATALOGUES:
        assert sorted(_translated(catalogue) - raised) == []


def test_every_error_of_the_class_and_its_lessons_is_translated() -> None:
    files = [file for place in TEACHING for file in ([place] if place.is_file() else sorted(place.glob("*.py")))]
    errors = set()
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in ("InputError", "HTTPException"):
                errors |= {sentence for given in call.args if (sentence := _sentence(given))}
    assert len(errors) > 3
    for catalogue in CATALOGUES:
        assert sorted(errors - _translated(catalogue)) == []
