"""Install the lowest versions that pyproject.toml allows and run a smoke test: ``python bench/floors.py``.

uv resolves them: direct dependencies at their floors, what those need at its newest. All but PyTorch goes into a
temporary folder in front of this environment, whose PyTorch is used: another one would be a gigabyte. ``--pins`` prints
the versions, ``--smoke`` tests the environment that it runs in, whichever Python that is.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OF_TORCH = re.compile(r"(torch|triton|nvidia-.*|cuda-.*|setuptools|sympy|mpmath|networkx)==")
TEXT = "My white horse drank at the river. My white horse drank at the"


def pins() -> list[str]:
    """The lowest versions, without PyTorch and what it brings along."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header"]
    command += ["--resolution", "lowest-direct", "--python", sys.executable, "--extra", "publish", "pyproject.toml"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [line for line in made.splitlines() if line and not OF_TORCH.match(line)]


def try_floors() -> None:
    """Install the lowest versions in front of this environment, and run the smoke test with them."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        wanted = pins()
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        subprocess.run([*install, "--python", sys.executable, *wanted], check=True)
        installed = time.perf_counter()
        path = os.pathsep.join([folder, str(ROOT / "src")])
        env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, Path(__file__).resolve(), "--smoke"], check=True, env=env, cwd=folder)
    direct = re.findall(r'^  "([a-z0-9_]+)>=', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    print("lowest versions:", ", ".join(pin for pin in wanted if pin.partition("==")[0] in direct))
    print(f"installed in {installed - began:.0f} s, tried in {time.perf_counter() - installed:.0f} s")


def headscope(*args: str) -> str:
    command = [sys.executable, "-c", "from headscope.cli import main; main()", *args]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"headscope {' '.join(args[:1])} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def smoke() -> None:
    """Help, a look, a saved page, a scan, a model saved and opened again, the ONNX graph of a site, and the server."""
    assert "look" in headscope("--help")
    assert "--head" in headscope("look", "--help")
    assert json.loads(headscope("look", TEXT, "--json"))["predictions"]
    headscope("look", TEXT)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        headscope("look", TEXT, "--save", str(here / "look.html"))
        (here / "corpus.txt").write_text("A horse and a lamp stood by the road. " * 30, encoding="utf-8")
        headscope("scan", "--corpus", str(here / "corpus.txt"), "--out", str(here / "census"))
        assert (here / "census" / "census.parquet").exists()
        _saved_and_opened(here / "model")
        published = importlib.util.find_spec("onnx") is not None and _published(here)
    _served()
    tried = ["help", "look", "page", "scan", "load", *(["publish"] if published else [])]
    print(f"Python {sys.version.split()[0]}: {', '.join(tried)} and serve work")


def _saved_and_opened(folder: Path) -> None:
    import transformers

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=50, **sizes)).save_pretrained(folder)
    assert "ok" in headscope("doctor", str(folder))


def _published(folder: Path) -> bool:
    """The embedded model as the graph of a site, run by onnxruntime beside PyTorch."""
    from headscope.app.publish.graph import export
    from headscope.app.publish.verify import GRAPH, verify
    from headscope.app.publish.weights import FILE, store
    from headscope.scope import load

    with load() as scope:
        exported = export(scope.model)
        stored = store(exported.graph, scope.model, "float16")
        (folder / GRAPH).write_bytes(stored.graph.SerializeToString())
        (folder / FILE).write_bytes(stored.weights)
        verified = verify(folder, scope, exported)
    if not verified.passed:
        raise SystemExit(f"the exported model is {verified}")
    return True


def _served() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-c",
        "from headscope.cli import main; main()",
        "serve",
        "--port",
        str(port),
        "--no-open",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        for _ in range(600):
            if server.poll() is not None:
                raise SystemExit(f"headscope serve ended:\n{server.communicate()[1].decode()[-4000:]}")
            if _status(port, "/") == 200:
                break
            time.sleep(0.2)
        wrong = {path: _status(port, path) for path in ("/", "/%00", "/api/nothing", "/..%2f")}
        if wrong["/"] != 200 or any(status is None or status >= 500 for status in wrong.values()):
            raise SystemExit(f"the server answers {wrong}")
    finally:
        server.terminate()
        server.wait()


def _status(port: int, path: str) -> int | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="test this environment as it is")
    parser.add_argument("--pins", action="store_true", help="print the lowest versions")
    given = parser.parse_args()
    if given.pins:
        print("\n".join(pins()))
    else:
        smoke() if given.smoke else try_floors()


if __name__ == "__main__":
    main()
