"""An environment for each peer that a benchmark is held against: the peer and what it needs, on our torch.

A peer's folder is a virtual environment of its own under ``.venv/peer``, or where ``HEADSCOPE_PEERS`` says. A ``.pth``
file lets it read this project's packages (torch, transformers), so that both sides run on the same builds; what the
peer needs beside them is installed into its own folder and is never seen by the project.

    python bench/peer_env.py transformer-lens        # prints the interpreter to run, building it the first time
    python bench/peer_env.py --list
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("HEADSCOPE_PEERS", ROOT / ".venv" / "peer"))

PEERS = {
    "transformer-lens": (
        "transformer-lens==4.3.0", "fancy-einsum==0.0.3", "einops==0.8.2", "typeguard==4.6.0", "sentencepiece==0.2.2",
        "transformers-stream-generator==0.0.5",
    ),
    "bertviz": (
        "bertviz==1.4.1", "boto3==1.44.0", "botocore==1.44.0", "s3transfer==0.19.3", "jmespath==1.0.1",
        "python-dateutil==2.9.0.post0", "sentencepiece==0.2.2",
    ),
    "nnsight": ("nnsight==0.8.1", "cloudpickle==3.1.2", "websocket-client==1.9.0", "zstandard==0.25.0"),
    "circuitsvis": ("circuitsvis==1.43.3", "importlib-metadata==8.7.0", "zipp==3.23.0"),
}  # fmt: skip
"""What each one needs beside this project's packages, all of it: nothing else is resolved or upgraded."""


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, which is built if it is not there yet."""
    if peer not in PEERS:
        raise SystemExit(f"{peer}: the peers are {', '.join(PEERS)}")
    home = FOLDER / peer
    python, ready = home / "bin" / "python", home / ".ready"
    wanted = "\n".join(PEERS[peer])
    if ready.is_file() and ready.read_text() == wanted:
        return python
    venv.create(home, clear=True, with_pip=False, symlinks=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (own / "project.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--no-deps", *PEERS[peer]], check=True)
    ready.write_text(wanted)
    return python


def run(peer: str, script: Path, *arguments: str, threads: int | None = None) -> str:
    """Run a script in a peer's environment, and give back what it printed."""
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1"}
    if threads is not None:
        surroundings["OMP_NUM_THREADS"] = str(threads)
    command = [str(python_of(peer)), str(script), *arguments]
    done = subprocess.run(command, check=True, env=surroundings, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*")
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    for peer in PEERS if chosen.list else ():
        state = "built" if (FOLDER / peer / ".ready").is_file() else "not built"
        print(f"{peer}: {', '.join(PEERS[peer])}, {state}")
    for peer in chosen.peers:
        print(python_of(peer))


if __name__ == "__main__":
    if sys.prefix == sys.base_prefix:
        raise SystemExit("run this with the project's own interpreter: .venv/bin/python bench/peer_env.py")
    main()
