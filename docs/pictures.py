"""The pictures of the documentation, made from the embedded model and the results: ``python docs/pictures.py``."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import torch
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import headscope
from headscope.heads.figure import STOPS
from headscope.heads.look.look import Look
from headscope.heads.questions.standard_questions import standard_questions

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
TEXT = "My white horse drank at the river. My white horse drank at the"
PAPER, INK, MARK = "#FCFBF8", "#1D1D1B", "#C4452C"
RAMP = LinearSegmentedColormap.from_list("weights", [f"#{stop}" for stop in STOPS])


def question(look: Look, head: str, name: str) -> Figure:
    """A head's pattern with the cells outlined where a question's labels are equal, and the share that lands there."""
    weights, tokens = look.pattern(head), [token.text.strip() or "·" for token in look.tokens]
    asked = standard_questions(torch.tensor([[token.id for token in look.tokens]]))[name]
    figure = Figure(figsize=(7.2, 6.4), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    axes.imshow(weights.numpy(), cmap=RAMP, norm=PowerNorm(0.5, 0, 1))
    for row, wanted in enumerate(asked.query[0].tolist()):
        for column in range(row):
            if wanted == asked.key[0, column] != -1:
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=MARK, linewidth=1.6))
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(len(tokens)), tokens)
    share = look.mean_answers(look.shape.find(head).site)[name][look.shape.find(head).head]
    axes.set_title(
        f"head {head}: {share:.0%} of the attention of the rows that have one lands in an outlined cell", loc="left"
    )
    axes.spines[:].set_visible(False)
    return figure


def memory() -> Figure:
    """Peak memory of all heads' statistics, with the pattern stored and without: measured, from the peers' results."""
    rows = json.loads((ROOT / "bench" / "results" / "peers-cpu.json").read_text())["rows"]
    figure = Figure(figsize=(7.2, 3.6), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    told = (
        ("transformers", "pattern stored, a layer at a time", MARK),
        ("headscope", "pattern never stored", "#151F56"),
    )
    for tool, label, colour in told:
        seen = [row for row in rows if (row["task"], row["tool"]) == ("statistics", tool) and "peak_bytes" in row]
        places = sorted((row["tokens"], row["peak_bytes"] / 2**20) for row in seen)
        axes.plot(*zip(*places, strict=True), marker="o", color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="MiB above the opened model", facecolor=PAPER)
    axes.set_xticks([256, 1024, 4096], ["256", "1,024", "4,096"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def shares(look: Look, token: str) -> Figure:
    """How much each head pushes one next token: the strongest ten, and all others together."""
    parts = look.logit_attribution(token)
    ranked = parts.ranked()
    strongest = [(str(head), float(value)) for head, value in ranked[:10]]
    strongest.append(("other heads", sum(float(value) for _, value in ranked[10:])))
    figure = Figure(figsize=(7.2, 3.6), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    names, values = zip(*strongest, strict=True)
    axes.barh(names, values, color=["#151F56" if value > 0 else MARK for value in values])
    axes.invert_yaxis()
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set(xlabel=f"share of the logit of “{token.strip()}”", facecolor=PAPER)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def main() -> None:
    matplotlib.rcParams.update({"svg.hashsalt": "headscope", "font.size": 10, "text.color": INK})
    look = headscope.load().look(TEXT)
    pictures = {
        "idea-question": question(look, "5.6", "induction"),
        "idea-memory": memory(),
        "idea-shares": shares(look, " river"),
    }
    for name, figure in pictures.items():
        figure.savefig(IMAGES / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
