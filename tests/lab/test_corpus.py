"""Gathering source text: by licence, each text once, nothing vendored, nothing generated."""

from __future__ import annotations

import json
import lzma
import re
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.lab.corpus import Document, distinct, is_permissive, licence_of, main, wheel

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
def test_a_licence_that_is_not_permissive_is_refused_by_name(tmp_path: Path, licence: str) -> None:
    with pytest.raises(InputError, match=r"thing-1\.0-py3-none-any\.whl: its licence is '.*'; only MIT, BSD"):
        list(wheel(a_wheel(tmp_path, licence, {"thing/a.py": CODE})))


def test_the_expression_counts_before_classifiers_and_free_text() -> None:
    metadata = Message()
    metadata["License"] = "see the file\nand more"
    assert licence_of(metadata) == "see the file"
    metadata["Classifier"] = "License :: OSI Approved :: BSD License"
    assert licence_of(metadata) == "BSD License"
    metadata["License-Expression"] = "Apache-2.0"
    assert licence_of(metadata) == "Apache-2.0"
    assert is_permissive("BSD License")
    assert not is_permissive("LGPL-2.1 OR MIT")


def test_each_text_is_taken_once_and_tables_are_left_out() -> None:
    table = "VALUES = [" + ", ".join(map(str, range(99))) + "]\n"
    documents = [
        Document("a", "MIT", "one.py", CODE),
        Document("b", "MIT", "copy.py", CODE.replace("\n", "\r\n")),
        Document("a", "MIT", "table.py", table * 3),
        Document("a", "MIT", "short.py", "x = 1"),
    ]
    assert [document.path for document in distinct(documents, 10_000)] == ["one.py"]


def test_no_source_gives_more_than_its_limit() -> None:
    documents = [Document("a", "MIT", f"{number}.py", CODE + f"# {number}") for number in range(9)]
    assert len(list(distinct(documents, 3 * len(CODE)))) == 2


def test_the_command_writes_lines_that_training_reads(tmp_path: Path) -> None:
    from headscope.lab.texts import read_documents

    file = tmp_path / "source.jsonl.xz"
    with lzma.open(file, "wt") as target:
        target.write(json.dumps({"source": "a", "licence": "MIT", "path": "one.py", "text": CODE}) + "\n")
    assert [(document.title, document.text) for document in read_documents(file)] == [("one.py", CODE)]


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
