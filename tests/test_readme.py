"""What the README and CONTRIBUTING say runs, runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_s_python_runs_as_it_stands() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    exec(compile("\n".join(blocks), "README.md", "exec"), {})


def test_every_make_target_that_is_mentioned_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in ("README.md", "CONTRIBUTING.md"):
        mentioned = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
        assert mentioned
        assert mentioned <= targets


def test_the_shipped_version_is_one() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    from headscope import __version__

    assert declared[1] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_figures_of_looks_and_scans_are_those_of_the_results() -> None:
    rows = json.loads((ROOT / "bench/results/look-h200.json").read_text())["rows"]
    at = {(row["model"], row["tokens"]): row["times"] for row in rows if "texts" not in row}
    scan = json.loads((ROOT / "bench/results/scan-small-h200.json").read_text())["rows"][0]

    def ms(model: str, tokens: int, what: str) -> str:
        value = at[model, tokens][what]["median_ms"]
        return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"

    text = " ".join((ROOT / "README.md").read_text().split())
    assert (scan["model"], scan["context"]) == ("gpt2-shape", 1024)
    for said in (
        "| GPT-2 small's shape, 1,024 tokens, float32 | "
        f"{ms('gpt2', 1024, 'look')} | {ms('gpt2', 1024, 'sdpa')} | {ms('gpt2', 1024, 'eager')} |",
        "| Llama 3.2 1B's shape, 4,096 tokens, bfloat16 | "
        f"{ms('llama-1b', 4096, 'look')} | {ms('llama-1b', 4096, 'sdpa')} | {ms('llama-1b', 4096, 'eager')} |",
        f"| scan of {scan['tokens']:,} tokens, GPT-2 small's shape | "
        f"{scan['scan_s']:.1f} s | {scan['plain_s']:.1f} s | |",
    ):
        assert said in text, said


def test_the_gpu_figures_are_those_of_the_results() -> None:
    rows = json.loads((ROOT / "bench/results/observe-h200.json").read_text())["rows"]
    at = {(row["tokens"], row["what"]): row for row in rows if "time" in row}

    def ms(tokens: int, what: str) -> str:
        value = at[tokens, what]["time"]["median_ms"]
        return f"{value:.0f}" if value >= 100 else f"{value:.1f}"

    def row(tokens: int) -> str:
        return (
            f"| {tokens:,} | "
            + " | ".join(f"{ms(tokens, what)} ms" for what in ("everything", "cudnn", "flash"))
            + " | |"
        )

    text = " ".join((ROOT / "README.md").read_text().split())
    ours, eager = at[8_192, "everything"], at[8_192, "eager"]
    for said in (
        row(32_768),
        row(131_072),
        f"| 8,192 | {ms(8_192, 'everything')} ms, {ours['peak_mib']:.0f} MiB | | | "
        f"{ms(8_192, 'eager')} ms, {eager['peak_mib'] / 1024:.1f} GiB |",
    ):
        assert said in text, said
