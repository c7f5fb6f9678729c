"""Every sentence on an arrow or a prediction is measured: each of its templates has a check beside it.

The models are the embedded one, the same with shuffled weights, and a compiled one; what a sentence says is compared
with numbers computed by hand. A sentence that fits no template fails.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from bench.programs import PROGRAMS
from tests.heads.llama_by_hand import LlamaByHand

import headscope
from headscope.app.pages.explain import TraceRequest, WhyRequest
from headscope.app.pages.microscope import Session
from headscope.errors import ModelError
from headscope.heads.explain.trace import TracedPrediction
from headscope.heads.explain.why import Place, Read, Share, Why
from headscope.heads.look.look import Look
from headscope.heads.roles.run import shuffled_weights
from headscope.heads.sentences import SENTENCES
from headscope.lab.compile import CompileOptions, compile_program
from headscope.names import quoted
from headscope.scope import Scope

TEXTS = (
    "My white horse drank at the river. My white horse drank at the",
    "Anna gave the book to Tom. Tom read it; then he gave the book back to Anna!",
    "for name in names:\n    print(name, names[name])\n",
)
MODELS = ("embedded", "shuffled", "compiled")
CASES = Path(__file__).parents[3] / "web" / "tests" / "microscope" / "sentences.jsonl"
NUMBER = r"([+-]?\d+\.\d\d)"
NAME = r"(head \d+\.\d+|MLP \d+|the embedding|the position embedding|the head's own biases)"


@pytest.fixture(scope="module", params=MODELS)
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[str, Scope]]:
    with ExitStack() as stack:
        if request.param == "compiled":
            made = compile_program(PROGRAMS["look up a name"], CompileOptions(context=64))
            scope = stack.enter_context(headscope.load(made.model, tokenizer=made.tokenizer))
        else:
            scope = stack.enter_context(headscope.load(dtype=torch.float32))
            if request.param == "shuffled":
                stack.enter_context(shuffled_weights(scope.model, 0))
        yield request.param, scope


def rounds_to(said: str, value: float) -> bool:
    return abs(float(said) - value) <= 0.0051


def percent_is(said: str, share: float) -> bool:
    if said == "under 1%":
        return 0 < share < 0.0101
    return 0.9899 < share <= 1 if said == "over 99%" else abs(float(said.rstrip("%")) / 100 - share) <= 0.0051


class Measured:
    """One arrow by hand: all that its sentence may say."""

    def __init__(self, why: Why, look: Look, scope: Scope, hand: LlamaByHand | None) -> None:
        self.why, self.scope, query, key = why, scope, why.query.position, why.key.position
        self.pattern = look.pattern(why.head).double()
        self.tokens, self.look = [token.text for token in look.tokens], look
        if hand is not None:
            scores = hand.scores(str(why.head), query)
            minus = self.against(scores)
            self.asked, self.answered = hand.contributions(str(why.head), query, key, minus)
            self.by_distance = hand.by_distance(str(why.head), query, key)
        else:  # q·k, and sums of pairs, which other tests hold to the scores
            source = look.source(why.head)
            scores = (source.k[0, 0, : query + 1].double() @ source.q[0, 0, query].double()) * (
                source.scores.scale or source.q.shape[-1] ** -0.5
            )
            minus = self.against(scores)
            self.asked, self.answered = (
                {share.name: float(part) for share, part in zip(side, why.pairs.sum(axis), strict=True)}
                for side, axis in ((why.asked, 1), (why.answered, 0))
            )
            self.by_distance = 0.0
        self.weight = float(scores.softmax(0)[key])
        self.score, self.total = float(scores[key]), float(scores[key] - minus @ scores)

    def against(self, scores: torch.Tensor) -> torch.Tensor:
        """The weights of the keys that the score is compared with."""
        if self.why.minus == "mean":
            return torch.full_like(scores, 1 / len(scores))
        if self.why.minus == "others":
            return scores.index_fill(0, torch.tensor([self.why.key.position]), -torch.inf).softmax(0).nan_to_num(0.0)
        return torch.eye(len(scores), dtype=scores.dtype)[int(self.why.minus)]

    def part(self, name: str, side: str = "answered") -> float:
        if name == "the head's own biases":
            name = "bias"
        name = re.sub("^(head|the) ", "", name).replace("MLP", "mlp")
        return (self.answered if side == "answered" else self.asked)[name]

    def top(self, side: str) -> list[float]:
        """The contributions of a side in the direction of the total, the largest first."""
        values = (self.answered if side == "answered" else self.asked).values()
        return sorted((value for value in values), reverse=self.total >= 0)

    def strongest(self, writer: str, at: int) -> int:
        return int(self.look.pattern(writer.removeprefix("head "))[at].argmax())


def gives(m: Measured, start: str, weight: str, key: str, total: str, side: str, against: str) -> None:
    assert start == f"{quoted(m.why.query.token)} (position {m.why.query.position}), head {m.why.head}"
    assert key == f"{quoted(m.tokens[m.why.key.position])} (position {m.why.key.position})"
    assert percent_is(weight, m.weight)
    assert rounds_to(total, abs(m.total))
    assert side == ("below" if m.total < 0 else "above")
    assert against == {
        "mean": "the row's average",
        "others": "the average of the other keys, weighted by attention",
    }.get(m.why.minus, f"that of the key at position {m.why.minus}")


def sees_one(m: Measured, start: str, key: str, score: str) -> None:
    assert int((m.pattern[m.why.query.position] > 0).sum()) == 1
    assert key == f"{quoted(m.tokens[m.why.key.position])} (position {m.why.key.position})"
    assert m.look.shape.name != "embedded" or rounds_to(score, m.score)


def distance(m: Measured, count: str, way: str, part: str, side: str) -> None:
    assert m.why.query.position - m.why.key.position == int(count) * (1 if way == "back" else -1)
    assert rounds_to(part, abs(m.by_distance))
    assert side == ("higher" if m.by_distance > 0 else "lower")


def unwritten(m: Measured) -> None:
    """With every other token replaced, the score stays."""
    query, key = m.why.query.position, m.why.key.position
    ids = [token.id for token in m.look.tokens]
    other = [each if at in (0, query, key) else 5 + at % 7 for at, each in enumerate(ids)]
    assert m.why.head.site == m.look.sites[0]
    assert m.scope.look(other).why(m.why.head, query, key).score == pytest.approx(m.why.score, abs=1e-4)


def both_ways(m: Measured, up: str, more: str, down: str, less: str) -> None:
    assert rounds_to(more, m.part(up))
    assert rounds_to(less, m.part(down))
    assert m.part(up) == pytest.approx(max(m.answered.values()), abs=1e-3)
    assert m.part(down) == pytest.approx(min(m.answered.values()), abs=1e-3)


def none_alone(m: Measured, most: str, name: str, part: str) -> None:
    main(m, most, part, name, "")
    assert abs(m.top("answered")[0]) < 0.4 * abs(m.total) + 1e-3


def main(m: Measured, most: str, part: str, name: str, attended: str) -> None:
    assert most == ("most negative" if m.total < 0 else "largest")
    assert rounds_to(part, m.part(name))
    assert m.part(name) == pytest.approx(m.top("answered")[0], abs=1e-3)
    if not attended:
        return
    found = re.fullmatch(r", which attends from (“.*?”) most to (that token itself|“.*?”)(, .*?)? \((.*)\)", attended)
    assert found, attended
    key, to, where, weight = found.groups()
    at = m.why.key.position
    strongest = m.strongest(name, at)
    assert key == quoted(m.tokens[at])
    assert to == ("that token itself" if strongest == at else quoted(m.tokens[strongest]))
    assert where == (
        None if strongest == at else {0: ", the first token", at - 1: ", the token before it"}.get(strongest)
    )
    assert percent_is(weight, float(m.look.pattern(name.removeprefix("head "))[at, strongest]))


def on_query_side(m: Measured, most: str, named: str) -> None:
    assert most == ("most negative" if m.total < 0 else "largest")
    for (name, part), largest in zip(re.findall(NAME + r" \(" + NUMBER + r"\)", named), m.top("asked"), strict=False):
        assert rounds_to(part, m.part(name, "asked"))
        assert m.part(name, "asked") == pytest.approx(largest, abs=1e-3)


WHY_TEMPLATES: dict[str, Callable[..., None]] = {
    rf"From (.*?) gives (.*?) of its attention to (.*?)\. The score is {NUMBER} (above|below) (.*?)\.": gives,
    rf"From (.*?) sees one key, (.*), so there is nothing to compare it with\. The score is {NUMBER}\.": sees_one,
    rf"At this distance \((\d+) positions? (back|ahead)\) the same query and key score {NUMBER} (higher|lower) than on "
    r"average over the distances in this row\.": distance,
    r"No layer has written to these positions yet, so only the two tokens and their positions matter\.": unwritten,
    rf"The key side: {NAME} contributes {NUMBER} and {NAME} {NUMBER}\.": both_ways,
    rf"No single component explains it; the (.*?) contribution is from {NAME} \({NUMBER}\)\.": none_alone,
    rf"The (.*?) contribution, {NUMBER}, is from {NAME}(.*?)\.(?= On the query side|$)": main,
    r"On the query side, the (.*?) contributions? (?:is|are) from (.*)\.": on_query_side,
}


def check(text: str, templates: dict[str, Callable[..., None]], *measured: object) -> list[str]:
    """Take a text apart into sentences, and measure each; return the templates that it used."""
    used = []
    while text:
        fitting = [(pattern, re.match(rf"{pattern}(?: |$)", text)) for pattern in templates]
        pattern, match = next(((p, m) for p, m in fitting if m), (None, None))
        if pattern is None or match is None:
            pytest.fail(f"no template fits {text!r}")
        templates[pattern](*measured, *match.groups())
        used.append(pattern)
        text = text[match.end() :]
    return used


def arrows(look: Look, count: int, seed: int) -> Iterator[Why]:
    """Random arrows, half of them the strongest of their row."""
    draw, heads, length = random.Random(seed), look.shape.heads(), len(look.tokens)
    for number in range(count):
        head, query = draw.choice(heads), draw.randrange(length)
        key = None if number % 2 else draw.randrange(query + 1)
        minus = draw.choice([None, None, "others", draw.randrange(query + 1)])
        try:
            yield look.why(head, query, key, minus)
        except ModelError:  # where rounding keeps a score from being split nothing is said
            continue


def test_sentences_on_arrows_say_what_is_measured(opened: tuple[str, Scope]) -> None:
    name, scope = opened
    used = set()
    for seed, text in enumerate(TEXTS):
        look = scope.look(text)
        hand = None if name == "compiled" else LlamaByHand(scope.model.model, [token.id for token in look.tokens])
        for why in arrows(look, 30, seed):
            used |= set(check(why.sentence, WHY_TEMPLATES, Measured(why, look, scope, hand)))
    if name == "embedded":
        assert used == set(WHY_TEMPLATES), "a template that no arrow used was not tested"


class MeasuredTrace:
    """One prediction by hand."""

    def __init__(self, trace: TracedPrediction, look: Look, hand: LlamaByHand) -> None:
        self.trace, self.look, self.hand = trace, look, hand
        self.ids = [look.token_id(trace.token)] + ([] if trace.minus is None else [look.token_id(trace.minus)])
        self.parts, self.total = self.hand.logit_parts(trace.position.position, *self.ids)
        self.ranked = sorted(self.parts.items(), key=lambda each: -abs(each[1]))


def logit(m: MeasuredTrace, token: str, after: str, total: str) -> None:
    assert (token, after) == (quoted(m.trace.token), quoted(m.trace.position.token))
    assert rounds_to(total, float(m.hand.logits[m.trace.position.position][m.ids[0]]))


def rather(m: MeasuredTrace, token: str, minus: str, after: str, total: str) -> None:
    logits = m.hand.logits[m.trace.position.position]
    assert (token, minus, after) == tuple(map(quoted, (m.trace.token, str(m.trace.minus), m.trace.position.token)))
    assert rounds_to(total, float(logits[m.ids[0]] - logits[m.ids[1]]))


def nothing_large(m: MeasuredTrace, percent: str) -> None:
    assert abs(m.ranked[0][1]) < int(percent) / 100 * abs(m.total) + 1e-4


def largest(m: MeasuredTrace, named: str) -> None:
    for said, (name, value) in zip(named.split(", "), m.ranked, strict=False):
        assert said.rpartition(" ")[0] == name.replace("mlp", "MLP")
        assert rounds_to(said.rpartition(" ")[2], value)


def through_others(m: MeasuredTrace, head: str, how: str, share: str, *read: str) -> None:
    position = m.trace.position.position
    through = {
        name: m.hand.through_keys(name, position, *m.ids) for name, _ in m.ranked if re.fullmatch(r"\d+\.\d+", name)
    }
    able = {
        name: keys for name, keys in through.items() if not position or keys[1:].abs().sum() >= 0.5 * keys.abs().sum()
    }
    best = max(able, key=lambda name: abs(m.parts[name]))
    part, token, at, weight = read
    assert (head, how) == (best, "raises" if m.parts[best] > 0 else "lowers")
    assert rounds_to(share, m.parts[best])
    assert int(at) == int(able[best].abs().argmax())
    assert rounds_to(part, float(able[best][int(at)]))
    assert token == quoted(m.look.tokens[int(at)].text)
    assert percent_is(weight, float(m.hand.weights(best, position)[int(at)]))


TRACE_TEMPLATES: dict[str, Callable[..., None]] = {
    rf"(“.*?”) after (“.*?”): logit {NUMBER}\.": logit,
    rf"(“.*?”) rather than (“.*?”) after (“.*?”): difference {NUMBER}\.": rather,
    r"No contribution is (\d+)% of it or more\.": nothing_large,
    rf"Largest contributions?: (.*?{NUMBER[1:-1]})\.(?= Of the|$)": largest,
    rf"Of the heads whose contribution does not come mostly from the first token, (\S+) (raises|lowers) it most "
    rf"\({NUMBER}\)\. The largest part of that, {NUMBER}, comes from (“.*?”) \(position (\d+)\), which gets (.*?) of "
    r"its attention\.": through_others,
}


@pytest.mark.parametrize("how", ["embedded", "shuffled"])
def test_sentences_on_predictions_say_what_is_measured(how: str) -> None:
    used = set()
    with headscope.load(dtype=torch.float32) as scope, ExitStack() as stack:
        if how == "shuffled":
            stack.enter_context(shuffled_weights(scope.model, 0))
        for text in TEXTS:
            look = scope.look(text)
            hand = LlamaByHand(scope.model.model, [token.id for token in look.tokens])
            for position in (-1, 6):
                first, second = (each.token.id for each in look.predictions(position, 2))
                for minus, floor in ((None, 0.03), (second, 0.03), (None, 0.9)):
                    trace = look.trace(first, minus, position, floor)
                    used |= set(check(trace.sentence, TRACE_TEMPLATES, MeasuredTrace(trace, look, hand)))
    assert how == "shuffled" or used == set(TRACE_TEMPLATES)


def test_cases_of_the_page_hold_the_sentences_of_this_version() -> None:
    """``web/tests/microscope/sentences.test.ts`` holds the page to the same sentences."""
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    sentences = [case["sentence"] for case in cases]
    assert [case["sentence"] for case in page_cases()] == sentences
    for template in (text for part in ("why", "writers", "trace") for text in SENTENCES[part].values()):
        pattern = re.compile(re.sub(r"\\{\w+\\}", ".+", re.escape(template)))
        assert any(map(pattern.search, sentences)), f"{template!r} is in no case"


def page_cases() -> list[dict[str, Any]]:
    """Arrows and traces as the page gets them, with their sentences."""
    found = []
    with headscope.load(dtype=torch.float32) as scope:
        session = Session(scope)
        for seed, text in enumerate(TEXTS):
            look = scope.look(text)
            name = session.adopt(look)
            for why in arrows(look, 12, seed):
                minus = why.minus if why.minus in ("mean", "others") else int(why.minus)
                asked = WhyRequest(
                    look=name, head=str(why.head), query=why.query.position, key=why.key.position, minus=minus
                )
                sent = session.why(asked).model_dump(mode="json")
                ends = {side: _ends(sent[side]) for side in ("asked", "answered")}
                found.append({"why": sent | ends | {"pairs": []}, "sentence": why.sentence})
                if why.key.position > 1:
                    found += [_altered(found[-1]["why"], made) for made in _made_up(why)]
            first, second = (each.token.id for each in look.predictions(-1, 2))
            for other, floor in ((None, 0.03), (second, 0.1), (None, 0.5)):
                given = TraceRequest(look=name, position=len(look.tokens) - 1, token=first, minus=other, floor=floor)
                sent = session.trace(given).model_dump(mode="json")
                for step in sent["steps"]:
                    step["reads"] = [
                        read | dict.fromkeys(("asked", "answered", "values"), ()) for read in step["reads"]
                    ]
                trace = look.trace(first, other, -1, floor)
                found += [
                    {"trace": sent | {"capped": capped}, "sentence": replace(trace, capped=capped).sentence}
                    for capped in (False, True)
                ]
    return found


def _made_up(why: Why) -> Iterator[Why]:
    """What no arrow of these texts shows: one that points ahead, beside a sink; a writer alone, by what it had read."""
    if "At this distance" in why.sentence:
        yield replace(why, query=why.key, key=why.query, sink=0.07)
        return
    for read in (why.key, Place(0, "My")):
        made = replace(why)
        answered, asked = Share("4.3", "head", why.total, read=Read(read, 0.5)), Share("bias", "reader", why.total)
        vars(made).update(answered=(answered,), asked=(asked,))
        yield made


def _altered(sent: dict[str, Any], why: Why) -> dict[str, Any]:
    changed: dict[str, Any] = {"query": asdict(why.query), "key": asdict(why.key), "sink": why.sink}
    for side, shares in (("asked", why.asked), ("answered", why.answered)):
        changed[side] = _ends([asdict(share) for share in shares])
    return {"why": sent | changed, "sentence": why.sentence}


def _ends(shares: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The largest and the smallest contributions."""
    ranked = sorted(shares, key=lambda share: -share["value"])
    return ranked if len(ranked) < 7 else ranked[:3] + ranked[-3:]


if __name__ == "__main__":  # python -m tests.heads.explain.test_sentences
    CASES.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in page_cases()), encoding="utf-8")
