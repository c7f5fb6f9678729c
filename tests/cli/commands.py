"""Command lines as real processes: their own streams, status and signals, without each paying for torch's import.

One process imports what is slow and forks for every command; a child runs ``main`` and ends as any program ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

DRIVER = r"""
import fcntl, gc, json, os, pty, signal, struct, sys, tempfile, termios, traceback
from pathlib import Path

import torch
import headscope.app.json_output, headscope.app.terminal, headscope.cli.commands
import headscope.heads.roles.run, headscope.scope
import headscope.lab.train.training, headscope.models.huggingface.model, headscope.scan.run
import rich.markdown, transformers.modeling_utils
from headscope.cli import main


def streams(kind):
    # Where the child's output goes, and how the parent gets it.
    if kind == "terminal":
        mine, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        return its, mine
    if kind == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
        return writing, None
    return os.open("/dev/full" if kind == "full disk" else tempfile.mkstemp()[1], os.O_RDWR), None


def read(mine):
    response = b""
    while True:
        try:
            more = os.read(mine, 65536)
        except OSError:  # the last one closed the terminal
            more = b""
        if not more:
            return response
        response += more


def end(line):
    # Tearing torch down takes longer than most commands; only where the last flush matters is it waited for.
    if line["stdout"] in ("closed pipe", "full disk"):
        main()
        sys.exit(0)
    status = 0
    try:
        main()
    except SystemExit as response:
        status = response.code or 0
    except BaseException:
        status = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def interrupt_after(calls):
    left = iter(range(calls))
    import torch
    torch.nn.modules.module.register_module_forward_pre_hook(
        lambda *_: os.kill(os.getpid(), signal.SIGINT) if next(left, None) is None else None
    )


def run(line):
    out, mine = streams(line["stdout"])
    err = os.open(tempfile.mkstemp()[1], os.O_RDWR)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
        os.dup2(out, 1), os.dup2(err, 2)
        sys.argv = ["headscope", *line["words"]]
        os.environ.update(line["environment"])
        os.environ.pop("COLUMNS", None)
        sys.stdout = open(1, "w", encoding=os.environ.get("PYTHONIOENCODING", "utf-8"), closefd=False)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
        if line["interrupted"] is not None:
            interrupt_after(line["interrupted"])
        end(line)
    if mine is not None:
        os.close(out)
        response = read(mine)
    _, status = os.waitpid(child, 0)
    if mine is None and line["stdout"] == "file":
        response = os.pread(out, 10**8, 0)
    elif mine is None:
        response = b""
    return os.waitstatus_to_exitcode(status), response.decode("utf-8", "replace"), os.pread(err, 10**7, 0).decode()


null, kept = os.open(os.devnull, os.O_WRONLY), os.dup(1)
os.dup2(null, 1)
for words in json.loads(sys.argv[3]):  # so that what these import is there for all
    headscope.cli.commands.app(words, standalone_mode=False)
os.dup2(kept, 1)
gc.freeze()  # else a child's first collection copies every page that it shares
answers = {}
for name, line in json.loads(Path(sys.argv[1]).read_text()).items():
    answers[name] = run(line)
Path(sys.argv[2]).write_text(json.dumps(answers))
"""


@dataclass(frozen=True)
class Line:
    """What is typed, where its output goes, and after how many calls of torch modules Ctrl-C is pressed."""

    words: tuple[str, ...]
    stdout: str = "file"
    environment: dict[str, str] = field(default_factory=dict)
    interrupted: int | None = None


class Done(NamedTuple):
    status: int
    out: str
    err: str


def run_all(lines: Mapping[str, Line], folder: Path) -> dict[str, Done]:
    """Every line, run in ``folder``."""
    asked, answered = folder / "asked.json", folder / "answered.json"
    asked.write_text(json.dumps({name: asdict(line) for name, line in lines.items()}), encoding="utf-8")
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TERM": "xterm-256color",
        "TMPDIR": str(folder),
    }
    warm = json.dumps([["look", "hello", "--json"], ["card", "gpt2"], ["learn", "3"]])
    command = [sys.executable, "-c", DRIVER, str(asked), str(answered), warm]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=500)
    return {name: Done(*response) for name, response in json.loads(answered.read_text(encoding="utf-8")).items()}
