"""A site as one page: every file of it comes back, and what does not go into one file is refused."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import pytest

from headscope.app.publish.site import WORKERS, PublishOptions, one_file
from headscope.errors import InputError


def test_every_file_of_a_site_comes_back_from_its_page(tmp_path: Path) -> None:
    files = {
        "site.json": b'{"title": "</script>"}',
        "answers/0.gz": gzip.compress(b"an answer"),
        "models/0/weights.bin": bytes(range(256)) * 40,
        "models/0/model.bin": bytes(range(7)),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "pyodide.js").write_bytes(b"not inside")
    page = one_file(tmp_path, "<i>Heads</i>").decode()
    assert "<title>&lt;i&gt;Heads&lt;/i&gt;</title>" in page
    found = {}
    for name, packed, text in re.findall(r'data-file="([^"]+)"( data-packed=gzip)?>([^<]*)</script>', page):
        content = base64.b64decode(text)
        found[name] = gzip.decompress(content) if packed else content
    for worker in WORKERS:
        assert b"onmessage" in found.pop(worker)
    assert found == files


def test_one_file_needs_the_name_of_a_page_and_takes_no_saved_looks(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"site is not the name of a page; with --one-file give --out a file, as in heads"
    ):
        PublishOptions(out=tmp_path / "site", one_file=True)
    with pytest.raises(InputError, match=r"2 saved looks do not go into one file.*look TEXT --save FILE.html"):
        PublishOptions(out=tmp_path / "heads.html", looks=["a", "b"], one_file=True)
