"""The same tasks on the same weights with headscope and with its peers, each in a process of its own.

    make peers                                  # everything; writes bench/results/peers-cpu.json and the README's table
    python bench/peers.py --only statistics     # some tasks; what was measured before is kept
    python bench/peers.py --table               # only the README's table, from the file

Each peer has an environment of its own (peer_env.py). The tasks themselves are in ``bench/peers/with_*.py``, one short
function each, as a user of that tool would write it.
The model has GPT-2 small's shape, with 4,096 positions so that long texts fit, 8,192 tokens, and random weights. The
oracle is GPT-2 written out by hand in float64, one head at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import peer_env
import peers_table
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "peers-cpu.json"
WEIGHTS = ROOT / ".venv" / "peer" / "weights"
TOKENIZER = ROOT / "src" / "headscope" / "models" / "embedded"
OURS = ("headscope", "transformers")  # these need no environment of their own
MODELS, DRAWERS = (*OURS, "transformer-lens", "nnsight"), ("headscope", "bertviz", "circuitsvis")
LIMIT = 900  # seconds for one task


@dataclass(frozen=True)
class Task:
    name: str
    tokens: int
    tools: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.name}-{self.tokens}"


TASKS = (
    Task("open", 0, MODELS),
    *(Task("statistics", tokens, MODELS) for tokens in (256, 1024, 4096)),
    Task("ablation", 256, MODELS),
    Task("parts", 256, MODELS),
    Task("picture_of_a_head", 512, DRAWERS),
    Task("picture_of_all", 512, DRAWERS),
)


def make_weights() -> None:
    """The one model all of them open, and the texts they read."""
    if (WEIGHTS / "ready").is_file():
        return
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_positions=4096, vocab_size=8192, initializer_range=0.06, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(WEIGHTS)
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    tokenizer.save_pretrained(WEIGHTS)
    text = (Path(os.__file__).parent / "argparse.py").read_text(encoding="utf-8")
    ids = tokenizer(text, truncation=True, max_length=4096)["input_ids"]
    for tokens in {task.tokens for task in TASKS} - {0}:
        (WEIGHTS / f"{tokens}.json").write_text(json.dumps(ids[:tokens]))
    (WEIGHTS / "ready").touch()


def oracle(task: Task) -> Tensor | None:
    """What the task's answer is, in float64."""
    if task.name == "open" or task.name.startswith("picture"):
        return None
    kept = WEIGHTS / f"oracle-{task.key}.pt"
    if not kept.is_file():
        from transformers import GPT2LMHeadModel

        model = GPT2LMHeadModel.from_pretrained(WEIGHTS).double().eval()
        ids = torch.tensor(json.loads((WEIGHTS / f"{task.tokens}.json").read_text()))
        with torch.no_grad():
            torch.save(_by_hand(model, ids, task.name), kept)
    answer: Tensor = torch.load(kept)
    return answer


def _by_hand(model: Any, ids: Tensor, task: str) -> Tensor:
    """GPT-2's own equations; a list of what the task asks of each layer."""
    width, d_head, body = 768, 64, model.transformer
    hidden = body.wte(ids) + body.wpe(torch.arange(len(ids)))
    found = []
    for number, block in enumerate(body.h):
        x = block.ln_1(hidden) @ block.attn.c_attn.weight + block.attn.c_attn.bias
        q, k, v = (part.view(len(ids), -1, d_head).transpose(0, 1) for part in x.split(width, dim=-1))
        heads = [_one_head(q[head], k[head], v[head], ids) for head in range(width // d_head)]
        z = torch.stack([delivered for delivered, _ in heads], dim=1)
        if task == "ablation" and number == 5:
            z[:, 1] = 0
        w_o = block.attn.c_proj.weight.view(-1, d_head, width)
        found.append(
            torch.einsum("hd,hdm->hm", z[-1], w_o) if task == "parts" else torch.stack([row for _, row in heads], dim=1)
        )
        hidden = hidden + z.flatten(1) @ block.attn.c_proj.weight + block.attn.c_proj.bias
        hidden = hidden + block.mlp(block.ln_2(hidden))
    last: Tensor = body.wte.weight @ body.ln_f(hidden[-1])
    return last if task == "ablation" else torch.stack(found, dim=1 if task == "statistics" else 0)


def _one_head(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """What it delivers, and its six statistics for every row."""
    place = torch.arange(len(ids))
    later = place > place[:, None]
    pattern = (q @ k.T / k.shape[-1] ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
    before = torch.cat([torch.tensor([-1]), ids[:-1]])
    other = place != place[:, None]
    one_back = place == place[:, None] - 1
    asked = (one_back, (ids[:, None] == ids) & other, (ids[:, None] == before) & other)
    distance = (pattern * (place[:, None] - place)).sum(-1)
    rows = [torch.special.entr(pattern).sum(-1), distance, pattern.amax(-1), *((pattern * m).sum(-1) for m in asked)]
    return pattern @ v, torch.stack(rows)


def run(task: Task, tool: str, seconds: float) -> dict[str, Any]:
    """One tool at one task; where it fails or refuses, its own last words."""
    script = ROOT / "bench" / "peers" / f"with_{tool.replace('-', '_')}.py"
    suffix = {"open": "", "picture_of_all": ".html"}.get(task.name, ".html" if "picture" in task.name else ".pt")
    out = WEIGHTS / f"{tool}-{task.key}{'.png' if (tool, task.name) == ('headscope', 'picture_of_a_head') else suffix}"
    python = sys.executable if tool in OURS else str(peer_env.python_of(tool))
    command = [python, str(script), task.name, str(WEIGHTS), "--ids", str(WEIGHTS / f"{task.tokens}.json")]
    row = {"task": task.name, "tokens": task.tokens, "tool": tool, "lines": peers_table.lines(script, task.name)}
    done = subprocess.run(
        [*command, "--out", str(out), "--seconds", str(seconds)], capture_output=True, text=True, timeout=LIMIT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("more: ")]
        return row | {"failed": "killed: out of memory" if done.returncode == -9 else said[-1][:300]}
    row |= json.loads(done.stdout.splitlines()[-1]) | {"load": round(os.getloadavg()[0], 1)}
    expected = oracle(task)
    if expected is not None:
        row["error"] = float((torch.load(out).double() - expected).abs().max() / expected.abs().max())
    out.unlink(missing_ok=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of tasks, or a task and its tokens, as in statistics-4096")
    parser.add_argument("--seconds", type=float, default=10.0, help="repeat each task for so long")
    parser.add_argument("--table", action="store_true", help="write the README's table and measure nothing")
    given = parser.parse_args()
    if not given.table:
        torch.set_num_threads(1)  # on a busy machine two threads wait for each other
        make_weights()
        about = measure.machine() | {"torch_threads": 1, "clock": "processor time"}
        rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
        for task in (task for task in TASKS if given.only is None or {task.name, task.key} & {*given.only}):
            oracle(task)
            for tool in task.tools:
                new = run(task, tool, given.seconds)
                print(json.dumps(new), flush=True)
                rows = [
                    row for row in rows if (row["task"], row["tokens"], row["tool"]) != (task.name, task.tokens, tool)
                ]
                rows.append(new)
                measure.write(RESULTS, benchmark="peers", about=about, rows=rows)
    peers_table.write(ROOT / "README.md", RESULTS)


if __name__ == "__main__":
    main()
