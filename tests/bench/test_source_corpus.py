"""Collecting source code: by licence, each text once, nothing vendored, nothing generated."""

from __future__ import annotations

import json
import lzma
import re
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from bench.source_corpus import Document, distinct, is_permissive, is_written_by_hand, licence_of, main, wheel

from headscope.errors import InputError

CODE = "def double(x):\n    return x + x  # twice as much as before, whatever it was\n" * 6


def a_wheel(folder: Path, licence: str, files: dict[str, str]) -> Path:
    file = folder / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("thing-1.0.dist-info/METADATA", f"Name: thing\nVersion: 1.0\n{licence}\n")
        for name, text in files.items():
            archive.writestr(name, text)
    return file


def test_a_wheel_gives_its_own_python_files_only(tmp_path: Path) -> None:
    files = {"thing/a.py": CODE, "thing/_vendor/b.py": CODE, "thing/data.json": "{}"}
    found = list(wheel(a_wheel(tmp_path, "License-Expression: MIT", files)))
    assert [(document.source, document.licence, document.path) for document in found] == [
        ("thing 1.0", "MIT", "thing/a.py")
    ]


@pytest.mark.parametrize("licence", ["License-Expression: GPL-3.0-only", "License: MPL-2.0 AND MIT", "Summary: none"])
def test_a_licence_that_is_not_permissive_is_rejected(tmp_path: Path, licence: str) -> None:
    with pytest.raises(InputError, match=r"thing-1\.0-py3-none-any\.whl: its licence is '.*'; only MIT, BSD"):
        list(wheel(a_wheel(tmp_path, licence, {"thing/a.py": CODE})))


@pytest.mark.parametrize(
    ("licence", "taken"),
    [
        ("MIT", True),
        ("mit license", True),
        ("BSD-3-Clause", True),
        ("Apache-2.0 OR BSD-2-Clause", True),
        ("Python Software Foundation License", True),
        ("ISC License (ISCL)", True),
        ("MPL-2.0", False),
        ("MIT AND LGPL-3.0", False),
        ("GNU General Public License v3 (GPLv3)", False),
        ("Other/Proprietary License", False),
        ("PERMIT ME", False),
        ("", False),
    ],
)
def test_a_licence_is_permissive_when_one_of_its_words_is_and_none_forbids(licence: str, taken: bool) -> None:
    assert is_permissive(licence) is taken


MIT, MPL = "MIT License", "Mozilla Public License 2.0 (MPL 2.0)"


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({}, ""),
        ({"License": ["see the file\nand more"]}, "see the file"),
        ({"License": ["see the file"], "Classifier": [f"License :: OSI Approved :: {MIT}"]}, MIT),
        ({"Classifier": ["Topic :: Education", f"License :: {MIT}", f"License :: {MPL}"]}, f"{MIT} AND {MPL}"),
        ({"Classifier": [f"License :: {MIT}"], "License-Expression": ["Apache-2.0"]}, "Apache-2.0"),
    ],
)  # fmt: skip
def test_licence_is_the_expression_or_all_classifiers_or_free_text(fields: dict[str, list[str]], licence: str) -> None:
    metadata = Message()
    for name, values in fields.items():
        for value in values:
            metadata[name] = value
    assert licence_of(metadata) == licence


LETTERS = "abcdefghi\n"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        (LETTERS * 20, True),
        ("a" * 199, False),
        ("a" * 200, True),
        ("a" * 400 + "\n" + LETTERS, True),
        ("a" * 401 + "\n" + LETTERS, False),
        (LETTERS * 15_000, True),
        (LETTERS * 15_000 + "a", False),
        (("a" * 89 + "1" * 11 + "\n") * 5, True),
        (("a" * 86 + "1" * 13 + "\n") * 5, False),
        ("\n" * 300, True),
    ],
    ids=["prose", "too short", "short", "long line", "longer line", "long file", "longer file", "few digits", "a table",
         "empty lines"],
)  # fmt: skip
def test_a_file_is_typed_by_hand_within_these_bounds(text: str, typed: bool) -> None:
    assert is_written_by_hand(text) is typed


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("thing/vendors.py", True),
        ("thing/my_vendor/a.py", True),
        ("thing/external_links.py", True),
        ("thing/vendor/a.py", False),
        ("vendored/a.py", False),
        ("thing/extern/a.py", False),
        ("thing/externals/deep/a.py", False),
        ("thing/third_party/a.py", False),
        ("thing/thirdparty/a.py", False),
        ("thing/typeshed/a.py", False),
    ],
)
def test_vendored_folders_are_left_out_by_name(tmp_path: Path, path: str, own: bool) -> None:
    found = wheel(a_wheel(tmp_path, "License-Expression: MIT", {path: CODE}))
    assert [document.path for document in found] == ([path] if own else [])


def test_a_file_that_is_not_a_wheel_is_refused(tmp_path: Path) -> None:
    torn = tmp_path / "torn-1.0-py3-none-any.whl"
    torn.write_bytes(a_wheel(tmp_path, "License-Expression: MIT", {"thing/a.py": CODE}).read_bytes()[:-30])
    with pytest.raises(
        InputError, match=r"torn-1\.0-py3-none-any\.whl is not a wheel, or is incomplete: download it again"
    ):
        list(wheel(torn))
    with zipfile.ZipFile(tmp_path / "plain.whl", "w") as archive:
        archive.writestr("thing/a.py", CODE)
    with pytest.raises(InputError, match=r"plain\.whl is not a wheel: it has no \.dist-info/METADATA"):
        list(wheel(tmp_path / "plain.whl"))


def test_whitespace_makes_no_new_text_and_a_text_over_the_limit_does_not_block_a_smaller_one() -> None:
    spaced = CODE.replace("    ", "\t").replace("\n", "\n\n")
    small = CODE[:210]
    documents = [Document("a", "MIT", name, text) for name, text in
                 (("one", CODE), ("spaced", spaced), ("large", CODE + CODE[::-1]), ("small", small))]  # fmt: skip
    taken = list(distinct(documents, len(CODE) + len(small)))
    assert [document.path for document in taken] == ["one", "small"]
    assert taken[0].text == CODE
    assert "\r" not in next(distinct([Document("a", "MIT", "w", CODE.replace("\n", "\r\n"))], 9999)).text


def test_gathering_takes_the_standard_library_and_each_wheel_within_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "python"
    for number, name in enumerate(
        ("a.py", "deep/b.py", "test/c.py", "deep/tests/d.py", "e.txt", *map("f{}.py".format, range(60)))
    ):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(CODE + f"# {number}")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(library))
    a_wheel(tmp_path, "License-Expression: MIT", {"thing/a.py": CODE, "thing/copy.py": CODE})
    out = tmp_path / "out.jsonl.xz"
    main([str(out), "--wheels", str(tmp_path), "--limit", "20000"])
    with lzma.open(out, "rt", encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    taken: dict[str, int] = {}
    for each in found:
        taken[each["source"]] = taken.get(each["source"], 0) + len(each["text"].encode())
        assert not re.search(r"(^|/)tests?/", each["path"])
    assert len(taken) == 2
    assert taken.pop("thing 1.0") == len(CODE), "each text once"
    ((python, size),) = taken.items()
    assert python.startswith("python 3.")
    assert 20_000 - 2 * len(CODE) < size <= 20_000
    printed = capsys.readouterr().out
    assert f"{size:>10,}  {python} (PSF-2.0)\n" in printed
    assert f"{size + len(CODE):>10,}  bytes in all -> {out}\n" in printed
