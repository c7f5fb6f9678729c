"""Serve SmolLM2 with vLLM and the plug-in, ask over HTTP, and compare all captured layers with transformers.

``make served`` runs it: the server in an environment of its own, this in headscope's. Prints one line per case.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

import headscope
from headscope.errors import InputError
from headscope.models.fetch import KNOWN, fetch

CLOSE = 1e-4
PORT = 8651
PATIENCE = 1200  # seconds for the server to start: most are for compiling
TEXT = "My white horse drank at the river. My white horse drank at the"
LONG = "Anna likes bread and works in an office. Anna lives in the city of Paris, near the park. " * 8
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_HOST_IP": "127.0.0.1", "HEADSCOPE_CAPTURE_MB": "60",
}  # fmt: skip


def ask(name: str | None, path: str = "completions", port: int = PORT, **more: Any) -> dict[str, Any]:
    """Send one request, which asks to be captured if it has a name."""
    body = {"model": "smol", "max_tokens": 3, "temperature": 0, **more}
    if name is not None:
        body["vllm_xargs"] = {"headscope": name}
    sent = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(sent, timeout=600) as reply:
        return dict(json.load(reply))


def start(python: Path, model: Path, folder: Path, log: Path, port: int = PORT, **more: str) -> subprocess.Popen[bytes]:
    """Start the server with these further settings and wait for it; chunked prefill, 64 tokens per step."""
    command = [
        python.parent / "vllm", "serve", model, "--served-model-name", "smol", "--dtype", "float32", "--port", port,
        "--host", "127.0.0.1", "--max-model-len", 1024, "--max-num-seqs", 8, "--max-num-batched-tokens", 64,
    ]  # fmt: skip
    given = {**os.environ, **SETTINGS, "HEADSCOPE_CAPTURE": str(folder), **more}
    given.pop("PYTHONPATH", None)
    with log.open("wb") as out:
        server = subprocess.Popen(
            list(map(str, command)), env=given, stdout=out, stderr=out, start_new_session=True, cwd=folder
        )
    for _ in range(PATIENCE):
        if server.poll() is not None:
            raise SystemExit(f"the server ended with status {server.returncode}: {ending(log)}")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return server
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(1)
    os.killpg(server.pid, signal.SIGTERM)
    raise SystemExit(f"the server did not start in {PATIENCE} s: {ending(log)}")


def ending(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def compare(folder: Path, name: str, model: Any) -> tuple[int, int, float]:
    """The rows and layers of a capture, and the largest difference of a pattern from transformers'."""
    look = headscope.open_look(folder, name=name)
    with torch.no_grad():
        made = model(look.prepared.inputs["input_ids"], output_attentions=True).attentions
    if look.sites != tuple(map(str, range(len(made)))):
        raise SystemExit(f"{name}: layers {look.sites} of a model with {len(made)}")
    worst = max(float((look.patterns(site) - made[int(site)][0]).abs().max()) for site in look.sites)
    return len(look.tokens), len(look.sites), worst


def written(folder: Path, name: str) -> bool:
    """Whether a capture has been written: it is when the engine's next step begins, after the reply."""
    for _ in range(100):
        if (folder / f"{name}.safetensors").is_file():
            return True
        time.sleep(0.1)
    return False


def hits() -> float:
    """How many tokens the server has taken from its prefix cache."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:prefix_cache_hits_total"))


def check(folder: Path, model: Any) -> list[str]:
    """Run the cases; return what is wrong."""
    chat = [{"role": "user", "content": TEXT}]
    asked: dict[str, dict[str, Any]] = {
        "chunks": {"prompt": LONG},
        "batch": {"prompt": TEXT},
        "chat": {"path": "chat/completions", "messages": chat},
        "generated": {"prompt": "The capital of France is", "max_tokens": 24},
    }
    wrong = []
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(ask, None, prompt=f"{TEXT} {index}", max_tokens=16) for index in range(4)]
        for reply in [pool.submit(ask, name, **more) for name, more in asked.items()] + others:
            reply.result()
    counts = [hits()]
    for name in (None, "cached"):  # the prompt is in the cache by now
        ask(name, prompt=LONG)
        counts.append(hits())
    print(f"from the prefix cache: {counts[1] - counts[0]:.0f} tokens not asked, {counts[2] - counts[1]:.0f} asked")
    if not counts[0] < counts[1] == counts[2]:
        wrong.append("cached: the prompt was not in the cache, or rows of a request that asked were taken from it")
    for name in (*asked, "cached"):
        if not written(folder, name):
            wrong.append(f"{name}: no capture was written")
            continue
        rows, layers, worst = compare(folder, name, model)
        print(f"{name:10} {rows:4} rows {layers:3} layers  largest difference of a pattern {worst:.1e}", flush=True)
        if not worst <= CLOSE:
            wrong.append(f"{name}: {worst:.1e} from transformers, more than {CLOSE:g}")
    there = sorted(folder.rglob("*"))
    for refused, prompt in (("../out", TEXT), ("chunks", TEXT), ("large", LONG * 4), (None, TEXT)):
        ask(refused, prompt=prompt)
    if sorted(folder.rglob("*")) != there or (folder.parent / "out.safetensors").exists():
        wrong.append("a bad name, a taken name, more than the limit, or no name: something was written")
    return wrong


def main(python: Path) -> None:
    known = KNOWN["smollm2"]
    if not known.here:
        fetch(known)
    model = AutoModelForCausalLM.from_pretrained(known.kept, dtype=torch.float32, attn_implementation="eager").eval()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "captures"
        folder.mkdir()
        server = start(python, known.kept, folder, Path(work) / "log")
        try:
            wrong = check(folder, model)
        except (OSError, InputError) as error:
            wrong = [f"{type(error).__name__}: {error}", ending(Path(work) / "log")]
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"served requests are as in transformers, to within {CLOSE:g}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
