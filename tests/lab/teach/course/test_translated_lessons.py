"""Lessons say the same in every language: the same figures, numbers, questions and answers; the code is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.lab.teach.lessons import FOLDER, LANGUAGES, contents, lesson

OTHERS = [language for language in LANGUAGES if language != "en"]
FILES = sorted(FOLDER.glob("*.md"))
CODE = re.compile(r"^```(python|numpy|solution)\n(.*?)^```$", flags=re.M | re.S)


def _found(pattern: str, text: str) -> list[str]:
    return re.findall(pattern, CODE.sub("", text), flags=re.M)


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_translation_has_the_figures_numbers_and_answers_of_the_lesson(file: Path, language: str) -> None:
    english, theirs = (path.read_text(encoding="utf-8") for path in (file, file.parent / language / file.name))
    for pattern in (r"^::: figure .*$", r"^## .*$", r"^- \[(?: |x|=)\]", r"\]\(([^)]+)\)", r"^- \[=\] (.*)$"):
        assert _found(pattern, theirs) == _found(pattern, english), pattern
    assert sorted(_found(r"\{\{[^{}]+\}\}", theirs)) == sorted(_found(r"\{\{[^{}]+\}\}", english))
    assert len(_found("^### ", theirs)) == len(_found("^### ", english))
    assert len(_found("^> ", theirs)) == len(_found("^> ", english))


@pytest.mark.parametrize("language", OTHERS)
def test_every_lesson_is_translated_and_no_code_is_written_twice(language: str) -> None:
    translations = sorted((FOLDER / language).glob("*.md"))
    assert [file.name for file in translations] == [file.name for file in FILES]
    for file in translations:
        assert [body for _, body in CODE.findall(file.read_text(encoding="utf-8"))] == ["", "", ""], file.name


def test_a_german_lesson_has_the_english_code_and_german_words() -> None:
    english, german = lesson(9), lesson(9, "de")
    assert (german.code, german.output, german.block and german.block.code) == (
        english.code,
        english.output,
        english.block and english.block.code,
    )
    assert german.title == {number: title for number, _, title in contents("de")}[9] != english.title
    assert german.check(1, "99").says.startswith("Es ist 7.39.")
    assert english.check(1, "99").says.startswith("It is 7.39.")


def test_a_language_without_lessons_is_refused() -> None:
    with pytest.raises(InputError, match="no lessons in 'fr'; there are en, de"):
        lesson(0, "fr")
