"""Is the wheel whole? ``python bench/wheel.py dist`` checks what is inside and then uses it as a stranger would.

``--contents`` stops after the contents, which needs no other environment. Otherwise the wheel is installed into a fresh
environment in a temporary folder, with the versions in constraints.txt, and looks at a text from there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 40_000_000
INSIDE = (
    "headscope/py.typed",
    "headscope/models/embedded/config.json",
    "headscope/models/embedded/model.safetensors.index.json",
    "headscope/models/embedded/tokenizer.json",
    "headscope/models/embedded/film.safetensors",
    "headscope/models/embedded/census.zip",
    "headscope/models/embedded/MODEL_CARD.md",
    "headscope/app/static/index.html",
    "headscope/app/static/saved.html",
    "headscope/app/static/one-file.html",
    "headscope/app/python/pyodide.asm.wasm.gz",
    "headscope/app/python/sandbox.html",
    "headscope/app/export/widget.js",
    "headscope/lab/cards/cards.json",
    "headscope/lab/teach/one_or_many.json",
    "headscope/lab/teach/lessons/01-why-one-head-is-not-enough.md",
    "headscope/explained/ShapeError.md",
)


def missing(wheel: Path) -> list[str]:
    """What should be in a wheel and is not; every file of the package but byte code belongs there."""
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    package = ROOT / "src" / "headscope"
    ours = {f"headscope/{file.relative_to(package)}" for file in package.rglob("*") if file.is_file()}
    wanted = {name for name in ours if "__pycache__" not in name} | set(INSIDE)
    return sorted(wanted - found)


def check(wheel: Path) -> None:
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.1f} MB")
    if size > LARGEST:
        raise SystemExit(f"{wheel.name} has {size / 1e6:.1f} MB; at most {LARGEST / 1e6:.0f} are allowed")
    if lost := missing(wheel):
        raise SystemExit(f"{wheel.name} lacks {', '.join(lost)}")


def use(what: str) -> None:
    """Install into nothing, somewhere else, and look."""
    text = "My white horse drank at the river. My white horse drank at the"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        began = time.perf_counter()
        venv.create(home / "env", with_pip=True)
        programs = home / "env" / "bin"
        install = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-c", ROOT / "constraints.txt", what], check=True, cwd=home)
        installed = time.perf_counter()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        for command in (["--version"], ["look", text, "--json"], ["doctor"], ["explain", "ShapeError"]):
            done = subprocess.run(
                [programs / "headscope", *command], cwd=home, env=clean, capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(f"headscope {command[0]} failed outside of the repository:\n{done.stderr}")
            if command[0] == "look" and "river" not in done.stdout:
                raise SystemExit(f"headscope look does not expect the river:\n{done.stdout}")
        used = time.perf_counter()
    print(f"{Path(what).name}: installed in {installed - began:.0f} s, used in {used - installed:.0f} s, from {home}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the wheel and the sdist are")
    parser.add_argument("--contents", action="store_true", help="do not install")
    parser.add_argument("--source", action="store_true", help="also `pip install .`")
    given = parser.parse_args()
    wheels = sorted(given.folder.glob("headscope-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    if not wheels:
        raise SystemExit(f"there is no wheel in {given.folder}; run make wheel")
    check(wheels[-1])
    if not given.contents:
        use(str(wheels[-1].resolve()))
    if given.source:
        use(str(ROOT))


if __name__ == "__main__":
    main()
