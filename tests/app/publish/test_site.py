"""What a site is made of: licences, stored answers, escaped names, and nothing of the machine it was made on."""

from __future__ import annotations

import getpass
import gzip
import json
import socket
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from headscope import __version__
from headscope.app.export.saved_explanations import EXAMPLES
from headscope.app.pages import REAL_HEADS
from headscope.app.pages.census import Censuses
from headscope.app.pages.course import lessons
from headscope.app.publish import site
from headscope.app.publish.answers import card_group, census_groups, stored_answers, stored_marks
from headscope.app.publish.graph import Exported, ExportError
from headscope.app.publish.site import PublishOptions, licence_of, publish, require, sizes_of
from headscope.app.wire import unpack
from headscope.errors import InputError
from headscope.lab.teach import lessons as course
from headscope.scope import EMBEDDED


def test_the_licence_is_what_the_model_card_says(tmp_path: Path) -> None:
    assert licence_of("embedded", EMBEDDED).name == "apache-2.0"
    assert licence_of("embedded", EMBEDDED).source == f"trained for headscope, and part of headscope {__version__}"
    (tmp_path / "README.md").write_text("---\nlanguage: en\nlicense: mit\n---\n# A model\n", encoding="utf-8")
    assert licence_of("mine", tmp_path).name == "mit"
    assert licence_of("mine", tmp_path).source == "mine, a folder of files"
    (tmp_path / "README.md").write_text("---\nlicense: other\n---\nlicense: mit\n", encoding="utf-8")
    assert not licence_of("mine", tmp_path).stated


def test_weights_without_a_licence_are_published_only_by_those_who_may(tmp_path: Path) -> None:
    unknown = licence_of("mine", tmp_path)
    with pytest.raises(InputError, match=r"mine comes with no model card that states a licence.*--i-may"):
        require(unknown, "mine", allowed=False)
    require(unknown, "mine", allowed=True)


@pytest.mark.slow
def test_every_lesson_has_a_file_under_the_name_of_its_request() -> None:
    found = stored_answers(Censuses())
    assert found["real-heads"] == REAL_HEADS.read_bytes()
    lesson = json.loads(found["lessons/1"])
    assert lesson["title"] == lessons.lesson(1).title
    assert json.loads(found["class"]) is None
    assert unpack(found["film"]).arrays


def test_a_card_is_stored_with_every_number_of_heads_that_its_page_offers() -> None:
    group = card_group("llama-3.1-8b")
    changed = group['card {"name":"llama-3.1-8b","n_heads":16,"n_kv_heads":4}']
    assert (changed.n_heads, changed.n_kv_heads) == (16, 4)
    assert group['card {"name":"llama-3.1-8b","n_heads":null,"n_kv_heads":null}'].n_heads == 32


def test_every_head_of_a_census_is_stored_with_every_question() -> None:
    census = Censuses().opened()[1]
    begins, group = next(census_groups(Censuses()))
    assert begins == "censuses/1/head?head=0.0&"
    assert list(group) == [f"{begins}question={each.name}" for each in census.table[0].quantities]
    assert all(request.endswith(answer.question) for request, answer in group.items())


def test_the_explained_examples_are_the_pages_own() -> None:
    shown = json.loads((Path(__file__).parents[3] / "web/src/examples.json").read_text(encoding="utf-8"))
    assert list(EXAMPLES) == [example["text"] for example in shown][: len(EXAMPLES)]


def test_the_document_of_lesson_code_states_its_policy(tmp_path: Path) -> None:
    site.write_python(tmp_path / "python")
    text = (tmp_path / "python" / "sandbox.html").read_text(encoding="utf-8")
    assert "connect-src 'none'" in text
    assert "frame-ancestors" not in text  # a document may not say this of itself


def test_marks_are_those_of_the_server() -> None:
    marks = json.loads(stored_marks())
    for number, *_ in course.contents():
        for index, question in enumerate(course.lesson(number).questions):
            stored = marks[str(number)][index]
            for letter, option in zip("abcdefgh", stored["options"], strict=False):
                answer = option["text"] if question.numeric else letter
                assert option["replies"] == [asdict(question.mark(answer, attempt)) for attempt in (1, 2, 3)]


@pytest.mark.slow
def test_a_site_whose_model_cannot_be_exported_says_why_and_keeps_its_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> Exported:
        raise ExportError("it is a test")

    monkeypatch.setattr(site, "export", refuse)
    text = "The <b>horse</b> crossed"
    title = "<script>alert(1)</script>"
    options = PublishOptions(out=tmp_path / "site", title=title, text=title, looks=[text], docs="docs/index.html")
    made = publish(options)
    described = json.loads((tmp_path / "site" / "site.json").read_text(encoding="utf-8"))
    assert described["models"][0]["why_not"] == "it is a test"
    assert described["models"][0]["folder"] == ""
    assert described["looks"] == [{"name": "embedded", "file": "looks/0-0.html", "text": text}]
    assert described["docs"] == "docs/index.html"
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "script-src 'self' 'wasm-unsafe-eval'" in page
    assert '<meta name="description" content="&lt;script&gt;alert(1)&lt;/script&gt;" />' in page
    assert "frame-ancestors" not in page
    front = yaml.safe_load((tmp_path / "site" / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert (front["title"], front["sdk"], front["app_file"]) == (title, "static", "index.html")
    assert (tmp_path / "site" / ".nojekyll").exists()
    assert made.sizes == sizes_of(tmp_path / "site")
    _assert_nothing_of_this_machine(tmp_path / "site")


def _assert_nothing_of_this_machine(folder: Path) -> None:
    """Neither this user, nor this machine, nor a path of it."""
    own = (socket.gethostname(), getpass.getuser(), str(Path.home()))
    names = [name for name in own if len(name) > 5]  # "root" is a word
    traces = [str(Path(__file__).parents[3]), str(folder.parent), "site-packages", *names]
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.name != "python":  # Pyodide's own files, which name its site-packages
            written = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for trace in traces:
                assert trace.encode() not in written, f"{trace} is in {path.name}"


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="exists and is not empty"):
        PublishOptions(out=tmp_path)


def test_the_citation_of_a_site_is_the_projects_own() -> None:
    written = (Path(__file__).parents[3] / "CITATION.cff").read_text(encoding="utf-8")
    assert written == site.CITATION
    read = yaml.safe_load(written)
    assert {"cff-version", "message", "title", "authors"} <= set(read)
    assert read["version"] == __version__


def test_an_address_of_documentation_that_would_run_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"'javascript:alert\(1\)' is not an address of documentation.*docs/index.html"
    ):
        PublishOptions(out=tmp_path / "site", docs="javascript:alert(1)")
