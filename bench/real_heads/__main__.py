"""Record the page Real heads from the fetched model: python -m bench.real_heads [--model smollm2] [--out FILE]

Patterns of all heads on the cards' sentences, the next token with all heads and without each in turn, the numbers that
cards quote, and twenty more sentences for each card. It stops if a claim of a card does not hold.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.real_heads.cards import CARDS, SENTENCES, Card
from bench.real_heads.measure import Meter

from headscope.app.pages.roles import REPORTS
from headscope.heads.roles.report import Report
from headscope.models.weight_hash import weight_hash
from headscope.scope import load

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "src" / "headscope" / "app" / "pages" / "real_heads.json"
ROLES = REPORTS["SmolLM2-135M-Instruct"]
SHOWN = 6


def share(value: float) -> str:
    """A share in a sentence, as the page writes it."""
    return "under 1%" if value < 0.01 else "over 99%" if 0.99 < value < 1 else f"{round(100 * value)}%"


def packed(values: np.ndarray[Any, Any], scale: float, kind: str) -> str:
    """Numbers as integers of a fixed size, in base64."""
    return base64.b64encode(np.round(values * scale).astype(kind).tobytes()).decode()


def sentence(meter: Meter, key: str) -> dict[str, Any]:
    """A sentence: every pattern, and the next word with all heads and without each of them."""
    text, wanted = SENTENCES[key]
    read = meter.read(text)
    tokens = [meter.token(text, word) for word in wanted.split()]
    tokens += [token for token in read.next.topk(SHOWN).indices.tolist() if token not in tokens][: SHOWN - len(tokens)]
    rows, columns = np.tril_indices(len(read.tokens))
    decode = meter.word
    return {
        "key": key,
        "text": text,
        "tokens": list(read.tokens),
        "next": [decode(token) for token in tokens],
        "weights": packed(read.patterns.numpy()[:, rows, columns], 65535, "<u2"),
        "probabilities": packed(torch.cat([read.next[None], meter.each(text)])[:, tokens].numpy(), 65535, "<u2"),
        "changes": packed(meter.divergence(text).clamp(0, 6.5).numpy(), 10_000, "<u2"),
    }


def role_tests(report: Report, card: Card) -> str:
    """What the role tests say of a card's head."""
    head, (role, why) = card.head, card.missed
    missed = f" Misses {role}: score {report.trial(role).scores[head]:.2f}, {why}." if role else why and f" {why}"
    assert not role or head not in report.trial(role).named
    passed = {each.role: each.evidence[0].score for each in report.findings if str(each.head) == head}
    said = [f"{role}, score {score:.2f}" for role, score in passed.items() if role != "first token" or len(passed) == 1]
    if not said:
        return f"Passes no test for a role, like {report.n_without - 1} other heads of this model.{missed}"
    only = "only " if "first token" in passed and len(passed) == 1 else ""
    return f"Passes {only}the test for {' and for '.join(said)}.{missed}"


def filled(text: str, card: Card, numbers: dict[str, float]) -> str:
    """A card's text with its numbers: shares; {name:n} is a count in words, and {name:l} the size of a logit."""

    def number(found: re.Match[str]) -> str:
        value = numbers[found[1]]
        if not found[2]:
            return share(value)
        if found[2] == ":l":
            return f"{abs(value):.1f}"
        return (
            ["two", "three", "four", "five", "six", "seven", "eight", "nine"][int(value) - 2]
            if value < 10
            else f"{value:.0f}"
        )

    said = re.sub(r"\{(\w+)(:[nl])?\}", number, text)
    return said[0].upper() + said[1:]


def general(meter: Meter, card: Card) -> dict[str, Any]:
    """Twenty more sentences of a card: how often it attends there, and what happens without the head."""
    points, hits = [], 0
    for text, query, keys, words in card.rows():
        read = meter.read(text)
        row = read.patterns[meter.number(card.head), read.at(query)].clone()
        at = [read.at(key) for key in keys]
        if 0 not in at:
            row[0] = 0
        hits += int(row.argmax()) in at
        if card.followed:
            said = [meter.word(meter.token(text, word)) for word in words]
            points.append(
                [text, said, *(round(meter.next(text, " ".join(words), off), 5) for off in ([], [card.head]))]
            )
    says = f"Twenty more {card.kind}: "
    if not card.towards:
        ranks = [meter.rank(text, card.head) for text, *_ in card.rows()]
        says += (
            f"in {sum(rank <= 10 for rank in ranks)} of them it is among the ten heads that change the next word most."
        )
    else:
        beyond = "" if card.towards == "the first word" else " after the first"
        says += f"in {hits} of them it attends to {card.towards} more than to any other word{beyond}."
    if points:
        before, after = (float(np.mean([point[at] for point in points])) for at in (2, 3))
        way = "falls" if after < before else "rises"
        kept = sum((point[3] < point[2]) == (after < before) for point in points)
        says += (
            f" Without the head, {card.followed} {way} in {kept}, on average from {share(before)} to {share(after)}."
        )
    assert len(card.rows()) == 20
    return {"says": says, "hits": hits, "points": points}


def following(meter: Meter, card: Card) -> dict[str, Any]:
    """An earlier head, and this card's pattern without it."""
    pattern = meter.read(SENTENCES[card.sentence][0], [card.after]).patterns[meter.number(card.head)].numpy()
    return {"head": meter.number(card.after), "weights": packed(pattern[np.tril_indices(len(pattern))], 65535, "<u2")}


def written(meter: Meter, report: Report, card: Card, *, more: bool = True) -> dict[str, Any]:
    """A card with every number measured."""
    for at, claim in enumerate(card.holds):
        assert claim(meter), f"claim {at} of the card {card.id} does not hold"
    numbers = {name: measure(meter) for name, measure in card.numbers.items()}
    kept = sentence(meter, card.sentence)
    shown = [meter.word(meter.token(kept["text"], word)) for word in card.shown.split()]
    return {
        "id": card.id,
        "group": card.group,
        "head": meter.number(card.head),
        "sentence": card.sentence,
        "query": meter.read(kept["text"]).at(card.query),
        "shown": [kept["next"].index(word) for word in shown],
        "short": card.short,
        "name": card.name,
        "tests": role_tests(report, card),
        **{part: filled(getattr(card, part), card, numbers) for part in ("see", "more", "limits")},
        "general": general(meter, card) if more else None,
        "after": card.after and following(meter, card),
        "paper": list(card.paper),
        "numbers": {name: round(value, 4) for name, value in numbers.items()},
    }


def record(meter: Meter, report: Report) -> dict[str, Any]:
    """Everything that the page shows."""
    site = next(iter(meter.scope.shape.sites.values()))
    return {
        "generated": "by python -m bench.real_heads; not written by hand",
        "model": meter.scope.shape.name,
        "weights": weight_hash(meter.scope.model.model, torch.float32),
        "layers": len(meter.scope.shape.sites),
        "heads": site.n_heads,
        "kv_heads": site.n_kv_heads,
        "sentences": [sentence(meter, key) for key in SENTENCES],
        "cards": [written(meter, report, card) for card in CARDS],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    report = Report.from_dict(json.loads(ROLES.read_text(encoding="utf-8")))
    with load(given.model, dtype=torch.float32) as scope:
        found = record(Meter(scope), report)
    given.out.write_text(json.dumps(found, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{given.out}: {given.out.stat().st_size:,} bytes")
    for card in found["cards"]:
        texts = (card[part] for part in ("tests", "see", "more", "limits"))
        print(f"\n{card['id']}:", *texts, card["general"]["says"], sep="\n")


if __name__ == "__main__":
    main()
