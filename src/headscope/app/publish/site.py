"""Write a static site: the pages, models that run in the visitor's browser, stored answers and saved looks."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import torch

from headscope import __version__
from headscope.app.export.html import STATIC, assemble, bundle, save_html
from headscope.app.export.saved_explanations import EXAMPLES, stored_explanations
from headscope.app.pages.census import Censuses
from headscope.app.pages.microscope import Session
from headscope.app.pages.roles import model_title
from headscope.app.publish.answers import answer_groups, census_comparisons, stored_answers, stored_marks, written
from headscope.app.publish.graph import Exported, ExportError, export
from headscope.app.publish.verify import ASKED_FOR, GRAPH, TOLERANCE, Verified, verify
from headscope.app.publish.weights import FILE, DType, Stored, attribution, split_card, store
from headscope.app.server import sandbox
from headscope.app.wire import pack
from headscope.errors import InputError
from headscope.files import atomic_folder, write_atomic
from headscope.models.fetch import fetched
from headscope.models.weight_hash import weight_hash
from headscope.scope import EMBEDDED, Scope, load

INSIDE = ("site.json", "answers", "models", "runtime", "api", "CITATION.cff")
WORKERS = ("assets/one-file-worker.js", "assets/one-file-training.js")
WORTH_IT = 0.97  # a file is compressed where it becomes smaller than this share of itself
SOURCES = "'wasm-unsafe-eval'"
FILE_POLICY = ("worker-src blob:",)  # beside the one script and its styles; the page connects to nothing


def one_file(folder: Path, title: str) -> bytes:
    """The site in this folder as one page. Python for the code of lessons and saved looks stay outside."""
    page = assemble("\n".join(_embedded(folder)), "one-file.html", FILE_POLICY, SOURCES)
    return page.replace("<title>headscope</title>", f"<title>{html.escape(title or 'headscope')}</title>", 1).encode()


def _embedded(folder: Path) -> Iterator[str]:
    """An element for each file; its type keeps a browser from running it."""
    for worker in WORKERS:
        yield _element(worker, (STATIC / worker).read_bytes())
    for part in INSIDE:
        place = folder / part
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                yield _element(path.relative_to(folder).as_posix(), path.read_bytes())


def _element(name: str, content: bytes) -> str:
    packed = b"" if name.endswith(".gz") else gzip.compress(content, 6, mtime=0)
    smaller = 0 < len(packed) < WORTH_IT * len(content)
    text = base64.b64encode(packed if smaller else content).decode("ascii")
    return f'<script type="text/plain" data-file="{html.escape(name)}"{" data-packed=gzip" * smaller}>{text}</script>'


RUNTIME = Path(__file__).parent / "runtime" / "ort.wasm.gz"
POLICY = (
    "default-src 'none'",
    "script-src 'self' 'wasm-unsafe-eval'",
    "worker-src 'self'",
    "frame-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "font-src 'self'",
    "img-src 'self' data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
)
NOT_IN_SITE = ("index.html", "index.js", "published.html", "saved.*", "one-file*")
DESCRIPTION = "A microscope for attention heads, in your browser: nothing to install."
CITATION = f"""\
cff-version: 1.2.0
message: If you use headscope or a site made with it, please cite it as below.
type: software
title: "headscope: a microscope for attention heads"
abstract: Build, see, measure and change every attention head of a transformer.
authors:
  - name: The headscope authors
version: {__version__}
license: Apache-2.0
keywords:
  - attention
  - transformers
  - interpretability
  - education
"""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class PublishOptions:
    """What goes into a site. ``i_may``: the person vouches for weights whose licence is not stated.

    ``docs``: the address of documentation that its bar links to, as in ``docs/index.html``. ``one_file``: ``out`` is
    one page that opens from a disk.
    """

    out: Path
    models: Sequence[str] = ()
    censuses: Sequence[Path] = ()
    looks: Sequence[str] = ()
    title: str = ""
    text: str = ""
    docs: str = ""
    dtype: DType | None = None
    i_may: bool = False
    one_file: bool = False

    def __post_init__(self) -> None:
        if self.one_file:
            self._check_one_file()
        elif self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise InputError(f"{self.out} exists and is not empty; give a new folder")
        if urlsplit(self.docs).scheme not in ("", "http", "https"):
            raise InputError(
                f"{self.docs!r} is not an address of documentation; give one that begins with https://, or a path "
                "inside the site, as in docs/index.html"
            )
        if not (STATIC / "published.html").exists():
            raise InputError("this copy of headscope lacks the page of published sites; run `make web`")

    def _check_one_file(self) -> None:
        if self.out.suffix != ".html" or self.out.is_dir():
            raise InputError(
                f"{self.out} is not the name of a page; with --one-file give --out a file, as in heads.html"
            )
        if self.looks:
            raise InputError(
                f"{len(self.looks)} saved looks do not go into one file; each is a separate page: leave out "
                "--look and save them with `headscope look TEXT --save FILE.html`, or publish a folder"
            )


@dataclass
class _PublishedModelEntry:
    """One model of a site; without a folder it is there by its saved looks only, and ``why_not`` says why."""

    name: str
    title: str
    licence: _Licence
    folder: str = ""
    why_not: str = ""
    bytes: int = 0
    verified: Verified | None = None

    def to_dict(self) -> dict[str, Any]:
        shown = {key: getattr(self, key) for key in ("name", "title", "folder", "why_not", "bytes")}
        return shown | {"licence": self.licence.name, "source": self.licence.source}


@dataclass
class Published:
    """A finished site: its folder, its models, and the sizes of its parts in bytes."""

    out: Path
    models: list[_PublishedModelEntry] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)


def publish(options: PublishOptions, say: Say = lambda _: None) -> Published:
    """Write the site into a new folder, or into one file, whole or not at all."""
    made = Published(options.out)
    if options.one_file:
        with TemporaryDirectory() as folder:
            _write(replace(options, out=Path(folder), one_file=False), made, say)
            write_atomic(options.out, one_file(Path(folder), options.title))
        made.sizes = {options.out.name: options.out.stat().st_size}
        return made
    with atomic_folder(options.out) as folder:
        _write(replace(options, out=folder), made, say)
        made.sizes = sizes_of(folder)
    return made


def _write(options: PublishOptions, made: Published, say: Say) -> None:
    looks: list[dict[str, str]] = []
    for number, name in enumerate(options.models or [None]):
        folder = EMBEDDED if name is None else fetched(name) or (Path(name) if Path(name).is_dir() else None)
        say(f"opening {name or 'the embedded model'}")
        with load(name) as scope:
            licence = licence_of(scope.shape.name, folder)
            require(licence, scope.shape.name, options.i_may)
            made.models.append(_publish_model(scope, licence, options, f"models/{number}/", say))
            looks += _save_looks(scope, options, number)
    say("writing the pages")
    _write_pages(options)
    site = {
        "title": options.title,
        "text": options.text,
        "docs": options.docs,
        "version": __version__,
        "command": f"headscope serve {' '.join(model.name for model in made.models if options.models)}".strip(),
        "models": [model.to_dict() for model in made.models],
        "looks": looks,
        "runtime": f"runtime/{RUNTIME.name}",
        **_write_answers(options),
    }
    (options.out / "site.json").write_text(json.dumps(site, ensure_ascii=False), encoding="utf-8")


def sizes_of(folder: Path) -> dict[str, int]:
    """Bytes of each part of a site, by the first folder or file of its path."""
    sizes: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            part = path.relative_to(folder).parts[0]
            sizes[part] = sizes.get(part, 0) + path.stat().st_size
    return sizes


def _publish_model(
    scope: Scope, licence: _Licence, options: PublishOptions, place: str, say: Say
) -> _PublishedModelEntry:
    entry = _PublishedModelEntry(scope.shape.name, model_title(scope), licence)
    folder = options.out / place
    try:
        say(f"exporting {entry.title}")
        exported = export(scope.model)
        entry.verified = write_model(scope, exported, folder, options.dtype, say)
    except ExportError as why:
        shutil.rmtree(folder, ignore_errors=True)
        entry.why_not = str(why)
        say(f"{entry.title} is published without its model: {why}")
        return entry
    entry.folder = place
    fetched = [path for path in folder.iterdir() if path.suffix != ".gz"]  # explanations come when they are asked for
    entry.bytes = sum(path.stat().st_size for path in fetched) + RUNTIME.stat().st_size
    return entry


def write_model(
    scope: Scope, exported: Exported, folder: Path, dtype: DType | None = None, say: Say = lambda _: None
) -> Verified:
    """Write a model's files, verify them, and describe them for the page."""
    stored, found = store_verified(scope, exported, folder, dtype, say)
    _describe(scope, exported, stored, found, folder)
    return found


def store_verified(
    scope: Scope, exported: Exported, folder: Path, dtype: DType | None = None, say: Say = lambda _: None
) -> tuple[Stored, Verified]:
    """Write the graph and its weights: in half precision if close enough or asked for, else in float32."""
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    kinds: list[DType] = [dtype] if dtype else ["float16", "float32"]
    for kind in kinds:
        graph = onnx.ModelProto()
        graph.CopyFrom(exported.graph)
        stored = store(graph, scope.model, kind)
        (folder / GRAPH).write_bytes(stored.graph.SerializeToString())
        (folder / FILE).write_bytes(stored.weights)
        found = verify(folder, scope, exported, ASKED_FOR if dtype == "float16" else TOLERANCE[kind])
        say(f"{kind} weights: {found}")
        if found.passed:
            return stored, found
    raise ExportError(f"what the exported model computes is {found}")


def _describe(scope: Scope, exported: Exported, stored: Stored, verified: Verified, folder: Path) -> None:
    """Return what the page knows of the model apart from its graph: sites, roles, token texts, offsets of weights."""
    session, processor = Session(scope), scope.model.processor
    context = min(exported.longest, scope.shape.context or exported.longest)
    values, arrays = attribution(scope.model)
    split, split_arrays = split_card(scope.model, exported, stored)
    card = {
        "model": session.model().model_copy(update={"context": context}),
        "roles": session.roles(),
        "featured": session.featured(),
        "explained": _explain(session, folder),
        "looks": _store_looks(scope, folder),
        "longest": exported.longest,
        "texts": [processor.text_of(token) for token in range(scope.shape.vocabulary or 0)],
        "scores": {site: vars(scores) for site, scores in exported.scores.items()},
        "tables": stored.tables,
        "attribution": values,
        "split": split,
        "hash": weight_hash(scope.model.model, torch.float32),
        "dtype": f"weights in {stored.dtype}",
        "verified": str(verified),
    }
    (folder / "model.bin").write_bytes(pack(card, arrays | split_arrays))
    tokenizer = processor.tokenizer
    (folder / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"clean_up_tokenization_spaces": false}', encoding="utf-8")


def _explain(session: Session, folder: Path) -> dict[str, str]:
    """Write what is explained of each example; the file of each text."""
    files = {}
    for number, (text, answers) in enumerate(stored_explanations(session, EXAMPLES)):
        files[text] = f"explained-{number}.gz"
        (folder / files[text]).write_bytes(gzip.compress(answers, 9, mtime=0))
    return files


def _store_looks(scope: Scope, folder: Path) -> dict[str, str]:
    """Write the look at each example, which the page shows before it has the model; the file of each text."""
    files = {text: f"look-{number}.gz" for number, text in enumerate(EXAMPLES)}
    for text, file in files.items():
        (folder / file).write_bytes(gzip.compress(bundle(scope.observe(text), published=True), 9, mtime=0))
    return files


def _save_looks(scope: Scope, options: PublishOptions, number: int) -> list[dict[str, str]]:
    saved = []
    for index, text in enumerate(options.looks):
        file = f"looks/{number}-{index}.html"
        (options.out / "looks").mkdir(exist_ok=True)
        save_html(scope.look(text), options.out / file)
        saved.append({"name": scope.shape.name, "file": file, "text": text[:200]})
    return saved


def _write_pages(options: PublishOptions) -> None:
    """The built page of published sites, under a strict content security policy, and the runtime.

    The policy says nothing of frames around the page: anybody may show it in one.
    """
    kept = shutil.ignore_patterns(*NOT_IN_SITE)
    shutil.copytree(STATIC, options.out, ignore=kept, dirs_exist_ok=True)
    page = (STATIC / "published.html").read_text(encoding="utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(POLICY)}">'
    title = f"<title>{html.escape(options.title or 'headscope')}</title>"
    about = f'<meta name="description" content="{html.escape(options.text or DESCRIPTION)}" />'
    page = re.sub("<title>.*?</title>", lambda _: f"{policy}\n    {title}\n    {about}", page, count=1)
    (options.out / "index.html").write_text(page, encoding="utf-8")
    (options.out / "CITATION.cff").write_text(CITATION, encoding="utf-8")
    # what a static Space of Hugging Face and GitHub Pages read
    front = {"title": options.title, "sdk": "static", "app_file": "index.html", "pinned": False}
    head = "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in front.items())
    (options.out / "README.md").write_text(f"---\n{head}---\n\nMade by headscope.\n", encoding="utf-8")
    (options.out / ".nojekyll").touch()
    (options.out / "runtime").mkdir()
    shutil.copy(RUNTIME, options.out / "runtime" / RUNTIME.name)
    write_python(options.out / "python")


def write_python(folder: Path) -> None:
    """Write Python for the code of lessons, fetched when a visitor runs some; its document may connect to nothing."""
    shutil.copytree(sandbox.FOLDER, folder, ignore=shutil.ignore_patterns("README.md"))
    document = folder / "sandbox.html"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(sandbox.page_policy())}" />'
    written = document.read_text(encoding="utf-8").replace("<title>", f"{policy}\n<title>", 1)
    document.write_text(written, encoding="utf-8")


def _write_answers(options: PublishOptions) -> dict[str, Any]:
    """Stored answers, each once and compressed."""
    censuses, folder = Censuses(options.censuses), options.out / "answers"
    folder.mkdir()
    named: dict[str, str] = {}
    files: dict[bytes, str] = {}

    def store(answer: bytes) -> str:
        if answer not in files:
            files[answer] = f"answers/{len(files)}.gz"
            (options.out / files[answer]).write_bytes(gzip.compress(answer, 9, mtime=0))
        return files[answer]

    for request, answer in (*stored_answers(censuses).items(), *census_comparisons(censuses)):
        named[request] = store(answer)
    groups = {begins: store(written(group)) for begins, group in answer_groups(censuses)}
    for number, census in censuses.opened().items():
        path = options.out / "api" / "censuses" / str(number) / "files"
        path.parent.mkdir(parents=True)
        path.write_bytes(census.archive())
    return {"answers": named, "groups": groups, "marks": store(stored_marks())}


CARDS = ("MODEL_CARD.md", "README.md")
UNKNOWN = "not stated"


@dataclass(frozen=True)
class _Licence:
    """A licence by its short name, and the place that states it. ``stated`` is False where nothing does."""

    name: str
    source: str
    stated: bool


def licence_of(name: str, folder: Path | None) -> _Licence:
    """Read the model card in the weights' folder; a hub name is its own source."""
    source = name if folder is None or "/" in name else f"{name}, a folder of files"
    if folder == EMBEDDED:
        source = f"trained for headscope, and part of headscope {__version__}"
    for path in () if folder is None else tuple(folder / card for card in CARDS):
        if path.is_file():
            found = _in_card(path.read_text(encoding="utf-8", errors="replace"))
            if found:
                return _Licence(found, source, stated=True)
    return _Licence(UNKNOWN, source, stated=False)


def require(licence: _Licence, name: str, allowed: bool) -> None:
    """Refuse to publish weights whose licence does not allow it, unless the user vouches for them."""
    if not licence.stated and not allowed:
        raise InputError(
            f"{name} comes with no model card that states a licence, so headscope does not know that its weights "
            "may be published; if you know that you may, say so with --i-may"
        )


def _in_card(text: str) -> str | None:
    """``license:`` in the YAML block at the head of a model card."""
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    found = head and re.search(r"^license(?:_name)?:\s*['\"]?([\w.+-]+)", head[1], re.MULTILINE)
    return None if not found or found[1].lower() in ("unknown", "other") else found[1]
