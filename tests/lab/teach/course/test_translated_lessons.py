"""Lessons say the same in every language: the same figures, numbers, questions and answers; the code is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.lab.teach.course.live_text import plain
from headscope.lab.teach.course.typed_numbers import readings
from headscope.lab.teach.lessons import FOLDER, LANGUAGES, _commented, contents, lesson

OTHERS = [language for language in LANGUAGES if language != "en"]
FILES = sorted(FOLDER.glob("*.md"))
CODE = re.compile(r"^```(python|numpy|solution)\n(.*?)^```$", flags=re.M | re.S)


COMMENT = re.compile(r"#[^\n]*")
LIVE = r"\{\{[^{}]+\}\}"


def _without_words(live: str) -> str:
    """A live number without the words of its form: {{n:Kopf|Köpfe}} is {{n:head|heads}}."""
    return re.sub(r":[^{}|]+\|[^{}|]+\}", ":|}", live)


def _found(pattern: str, text: str) -> list[str]:
    return re.findall(pattern, CODE.sub("", text), flags=re.M)


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_translation_has_the_figures_numbers_and_answers_of_the_lesson(file: Path, language: str) -> None:
    english, theirs = (path.read_text(encoding="utf-8") for path in (file, file.parent / language / file.name))
    for pattern in (r"^::: figure .*$", r"^## .*$", r"^- \[(?: |x|=)\]", r"\]\(([^)]+)\)"):
        assert _found(pattern, theirs) == _found(pattern, english), pattern
    answers = ([readings(answer) for answer in _found(r"^- \[=\] (.*)$", text)] for text in (theirs, english))
    assert next(answers) == next(answers)
    assert sorted(map(_without_words, _found(LIVE, theirs))) == sorted(map(_without_words, _found(LIVE, english)))
    assert len(_found("^### ", theirs)) == len(_found("^### ", english))
    assert len(_found("^> ", theirs)) == len(_found("^> ", english))


@pytest.mark.parametrize("language", OTHERS)
def test_every_lesson_is_translated_and_no_code_is_written_twice(language: str) -> None:
    translations = sorted((FOLDER / language).glob("*.md"))
    assert [file.name for file in translations] == [file.name for file in FILES]
    for file in translations:
        blocks = dict(CODE.findall(file.read_text(encoding="utf-8")))
        assert blocks.pop("python") == "", file.name
        for kind, code in CODE.findall((FOLDER / file.name).read_text(encoding="utf-8")):
            wanted = {comment for comment in COMMENT.findall(code) if re.search(r"\w", re.sub(LIVE, "", comment))}
            assert kind == "python" or {line.split(" → ")[0] for line in blocks[kind].splitlines()} == wanted, file.name


def test_a_german_lesson_has_the_english_code_with_german_words_and_comments() -> None:
    english, german = lesson(9), lesson(9, "de")
    assert (german.code, german.output) == (english.code, english.output)
    ours, theirs = ("\n".join([block.code, block.solution]) for block in (english.block, german.block) if block)
    assert COMMENT.sub("", theirs) == COMMENT.sub("", ours)
    assert "# the words are in order" in ours
    assert "# die Wörter sind geordnet" in theirs
    assert german.title == {number: title for number, _, title in contents("de")}[9] != english.title
    assert german.check(1, "99").says.startswith("Es ist 7,39.")
    assert english.check(1, "99").says.startswith("It is 7.39.")


def test_a_translated_comment_that_the_code_does_not_have_is_refused() -> None:
    assert _commented("x = 1  # one\n", "# one → eins\n", "a.md") == "x = 1  # eins\n"
    for line in ("# two → zwei\n", "# one\n"):
        with pytest.raises(InputError, match=re.escape(f"a.md translates {line.strip()!r}")):
            _commented("x = 1  # one\n", line, "a.md")


def test_a_language_without_lessons_is_refused() -> None:
    with pytest.raises(InputError, match="no lessons in 'fr'; there are en, de"):
        lesson(0, "fr")


def test_numbers_of_a_german_question_have_a_comma_and_names_of_heads_a_point() -> None:
    text = "{{share:w=.69}} {{gap:.2f=−0.50}} {{head=5.6}} {{count:head|heads=1 head}}"
    assert plain(text, ",") == "0,69 −0,50 5.6 1 head"
    assert plain(text) == ".69 −0.50 5.6 1 head"
    says = lesson(0, "de").questions[0].options[1].says
    assert re.search(r"von 0,\d\d auf 0,\d\d", says), says


TEMPLATE = re.compile(r'^  (?:"((?:[^"\\]|\\.)+)"|(\w+)):', flags=re.M)


def test_every_line_that_a_lesson_prints_has_its_german_words() -> None:
    """Lines of names and numbers alone need none: "top-k, k = 3     road 0.54  street 0.30"."""
    catalogue = (FOLDER.parents[4] / "web/src/words/de/pages/printed.ts").read_text(encoding="utf-8")
    known = [re.sub(r"\\\{\d\\\}", "(.+?)", re.escape(quoted or bare)) for quoted, bare in TEMPLATE.findall(catalogue)]
    assert len(known) > 30
    for number, name, _ in contents():
        for line in lesson(number).output.splitlines():
            words = set(re.findall(r"[a-z]{3,}", line)) - {"road", "street", "river", "field", "bridge", "sofa", "top"}
            assert not words or any(re.fullmatch(each, line) for each in known), f"{name} prints {line!r}"
