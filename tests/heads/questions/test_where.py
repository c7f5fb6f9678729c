"""The partition of a head's attention: shares add up to 1, and equal a count by hand over plain transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from bench.programs import PROGRAMS
from tests.models import tiny

import headscope
from headscope.errors import InputError
from headscope.heads.questions.label_rules import token_class
from headscope.heads.questions.where import FIRST, SINK, Where
from headscope.heads.roles.run import shuffled_weights
from headscope.lab.compile import CompileOptions, compile_program
from headscope.scope import EMBEDDED, Scope

TEXTS = (
    "My white horse drank at the river. My white horse drank at the river, and slept.",
    "Anna gave the book to Tom. Tom read it; then Tom gave the book back to Anna!",
    "One, two, three, four. One, two, three, five?\nThe end.",
    "The old man who sold the lamps said that the lamps were old.",
    "It rained. It rained again, and the road was wet.",
)
CASES = Path(__file__).parents[3] / "web" / "tests" / "microscope" / "where.jsonl"
END, OTHER = {".", "!", "?", "…"}, {",", ";", ":"}


@pytest.fixture(scope="module")
def scope() -> Iterator[Scope]:
    with headscope.load() as scope:
        yield scope


@pytest.fixture(scope="module")
def found(scope: Scope) -> Where:
    return scope.where(TEXTS)


def class_by_hand(ids: list[int], texts: list[str], i: int, j: int) -> str:
    if j == 0:
        return FIRST
    if i == j:
        return "the token itself"
    if ids[j - 1] == ids[i]:
        return "the token that followed an earlier copy"
    if ids[j] == ids[i]:
        return "an earlier copy"
    if i - j == 1:
        return "the previous token"
    if i - j <= 4:
        return "2 to 4 tokens back"
    if texts[j].strip() in END or "\n" in texts[j]:
        return "an end of a sentence or line"
    if texts[j].strip() in OTHER:
        return "other punctuation"
    return "elsewhere, 5 to 16 tokens away" if i - j <= 16 else "elsewhere, 17 to 64 tokens away"


def test_shares_equal_a_count_by_hand_over_plain_transformers(scope: Scope, found: Where) -> None:
    plain = transformers.AutoModelForCausalLM.from_pretrained(
        EMBEDDED, attn_implementation="eager", dtype=torch.float32
    )
    sums: dict[tuple[str, str], float] = {}
    rows = 0
    for text in TEXTS:
        tokens = scope.look(text).tokens
        ids, texts = [token.id for token in tokens], [token.text for token in tokens]
        with torch.no_grad():
            attentions = plain(torch.tensor([ids]), output_attentions=True).attentions
        rows += len(ids) - 1
        for i in range(1, len(ids)):
            for j in range(i + 1):
                name = class_by_hand(ids, texts, i, j)
                for head in ("0.2", "2.1", "4.3", "5.6", "7.0"):
                    layer, number = map(int, head.split("."))
                    sums[head, name] = sums.get((head, name), 0.0) + float(attentions[layer][0, number, i, j])
    for head in ("0.2", "2.1", "4.3", "5.6", "7.0"):
        shares = {name: share.share for name, share in found[head].shares.items()}
        by_hand = {name: sums.get((head, name), 0.0) / rows for name in shares}
        assert shares == pytest.approx(by_hand, abs=1e-5)


def test_shares_of_every_head_add_up_to_one(found: Where) -> None:
    assert len(found.heads) == 64
    for head in found.heads.values():
        assert sum(share.share for share in head.shares.values()) == pytest.approx(1, abs=1e-5)
        assert sum(share.by_distance for share in head.shares.values()) == pytest.approx(1, abs=1e-5)
        for share in head.shares.values():
            assert share.low is not None
            assert share.high is not None
            assert share.low - 1e-9 <= share.share <= share.high + 1e-9


def test_one_text_has_no_interval(scope: Scope) -> None:
    look = scope.look(TEXTS[0])
    assert {share.low for share in look.where("5.6").shares.values()} == {None}
    assert look.where()["5.6"] == look.where("5.6")


def test_a_class_alone_counts_what_earlier_classes_take(scope: Scope) -> None:
    found = scope.look([5, 5, 5, 5, 5]).where("4.3").shares  # every key but the first follows a copy
    assert found["the previous token"].share == 0
    assert found["the previous token"].alone > 0.5
    assert found["the previous token"].present == pytest.approx(3 / 4)


def test_a_head_that_looks_by_distance_only_gets_what_distance_gives() -> None:
    bloom = tiny.build("BloomConfig", "BloomForCausalLM", n_layer=1, n_head=4, hidden_size=32)
    with torch.no_grad():
        for block in bloom.transformer.h:
            block.self_attention.query_key_value.weight.view(4, 3, 8, 32)[:, :2] = 0  # ALiBi is left of the scores
    with headscope.load(bloom) as scope:
        ids = torch.randint(5, 20, (3, 60), generator=torch.Generator().manual_seed(0)).tolist()
        found = scope.where(ids)
    for head in found.heads.values():
        for name, share in head.shares.items():
            assert share.by_distance == pytest.approx(share.share, abs=0.01), name


def test_own_classes_come_first(scope: Scope) -> None:
    found = scope.where(TEXTS[:2], [token_class("horses", "horse")])["5.6"].shares
    assert next(iter(found)) == "horses"
    assert sum(share.share for share in found.values()) == pytest.approx(1, abs=1e-5)
    assert found["horses"].share > 0


def test_encoders_look_ahead_too() -> None:
    with headscope.load(tiny.build("BertConfig", "BertForMaskedLM")) as scope:
        found = scope.look([2, 5, 6, 7, 5, 6, 3]).where("0.1").shares
    assert sum(share.share for share in found.values()) == pytest.approx(1, abs=1e-5)
    assert found["the next token"].share > 0
    assert "the token that followed another copy" in found
    assert SINK not in found


def test_long_texts_are_read_to_their_beginning(scope: Scope) -> None:
    found = scope.where([" horse" * 700, TEXTS[0]])
    assert found["5.6"].n_tokens == 512
    assert "2 texts of up to 512 tokens" in str(found["5.6"])


def kinds_by_hand(ids: list[int], texts: list[str], i: int, j: int) -> set[str]:
    """All classes that a key fits, whatever stands before them."""
    end, sign = texts[j].strip() in END or "\n" in texts[j], re.fullmatch(r"[\W_]+", texts[j].strip())
    found = {
        "the token itself": i == j,
        "the token that followed an earlier copy": i > j > 0 and ids[j - 1] == ids[i],
        "an earlier copy": i > j and ids[j] == ids[i],
        "the previous token": i - j == 1,
        "2 to 4 tokens back": 2 <= i - j <= 4,
        "an end of a sentence or line": end,
        "other punctuation": bool(sign) and not end,
    }
    return {name for name, fits in found.items() if fits}


@pytest.mark.parametrize("how", ["embedded", "shuffled", "compiled"])
def test_every_part_of_a_sentence_is_measured_by_hand(how: str) -> None:
    with ExitStack() as stack:
        if how == "compiled":
            made = compile_program(PROGRAMS["look up a name"], CompileOptions(context=64))
            scope = stack.enter_context(headscope.load(made.model, tokenizer=made.tokenizer))
        else:
            scope = stack.enter_context(headscope.load(dtype=torch.float32))
            if how == "shuffled":
                stack.enter_context(shuffled_weights(scope.model, 0))
        looks = [scope.look(text) for text in TEXTS]
        found = scope.where(TEXTS)
        rows = sum(len(look.tokens) - 1 for look in looks)
        for head, each in found.heads.items():
            got: dict[str, float] = {}
            there: dict[str, int] = {}
            for look in looks:
                ids, texts = [token.id for token in look.tokens], [token.text for token in look.tokens]
                pattern = look.pattern(head).tolist()
                for i in range(1, len(ids)):
                    seen = set()
                    for j in range(i + 1):
                        far = ELSEWHERE[(i - j > 16) + (i - j > 64)]
                        names = {FIRST} if j == 0 else kinds_by_hand(ids, texts, i, j) or {far}
                        seen |= names
                        for name in names:
                            got[name] = got.get(name, 0.0) + pattern[i][j] / rows
                    there |= {name: there.get(name, 0) + 1 for name in seen}
            length = max(len(look.tokens) for look in looks)
            check(str(each), got, {name: count / rows for name, count in there.items()}, length)


ELSEWHERE = ("elsewhere (5 to 16 tokens away)", "elsewhere (17 to 64 tokens away)", "elsewhere (farther away)")
PERCENT = r"(under 1%|over 99%|\d+%)"


def check(sentence: str, got: dict[str, float], there: dict[str, float], length: int) -> None:
    """Measure each part of a sentence; what fits no template fails."""
    left = sentence.removeprefix(f"On {len(TEXTS)} texts of up to {length} tokens, ")
    assert left != sentence
    first, rest = got[FIRST], 1 - got[FIRST]
    if found := re.match(rf"{PERCENT} of its attention goes to the first token\.(?: Of the rest, |$)", left):
        assert is_percent(found[1], first)
        left = left[found.end() :]
    else:
        assert " of its attention outside the first token goes" in left
        left = left.replace(" of its attention outside the first token", "", 1)
    while left:
        part = re.match(
            rf"{PERCENT} goes (?:to )?(.*?)(?: \(there is one at {PERCENT} of positions\))?(?:, |\.$)", left
        )
        assert part, left
        assert is_percent(part[1], got[part[2]] / rest), part[2]
        assert part[3] is None or is_percent(part[3], there[part[2]]), part[2]
        left = left[part.end() :]


def is_percent(said: str, share: float) -> bool:
    if said == "under 1%":
        return 0 < share < 0.0101
    return 0.9899 < share <= 1.0001 if said == "over 99%" else abs(float(said[:-1]) / 100 - share) <= 0.0051


def test_the_table_has_a_row_per_head_and_class(found: Where) -> None:
    table = found.table()
    assert table.num_rows == 64 * len(found["0.0"].shares)
    assert {"head", "class", "share", "low", "high", "by_distance"} <= set(table.column_names)


def test_what_cannot_be_measured_is_rejected(scope: Scope) -> None:
    with pytest.raises(InputError, match="texts is a list, not a text"):
        scope.where("a text")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no text of two or more tokens"):
        scope.where([])


def test_cases_of_the_page_hold_the_shares_of_this_version() -> None:
    """``web/tests/microscope/where.test.ts`` holds the page to the same shares."""
    kept = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    for case, old in zip(page_cases(), kept, strict=True):
        for name, share in case["shares"].items():
            assert old["shares"][name] == pytest.approx(share, abs=2e-4), name


def page_cases() -> Iterator[dict[str, Any]]:
    """A head of a decoder, of one with windows and sinks, and of an encoder: its pattern, and where it goes."""
    ids, sizes = [2, 5, 6, 7, 5, 6, 3, 8, 5, 9, 9, 4, 6, 11, 5, 6, 12, 3], {"hidden_size": 32, "num_hidden_layers": 1}
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 7, "head_dim": 8}
    shape = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 64}
    sinks = tiny.build("GptOssConfig", "GptOssForCausalLM", **sizes, **shape, **experts)
    for source, given, head in (
        (None, TEXTS[0], "5.6"),
        (sinks, ids, "0.1"),
        (tiny.build("BertConfig", "BertForMaskedLM"), ids, "0.1"),
    ):
        with headscope.load(source) as scope:
            look = scope.look(given)
            yield {
                "tokens": [{"id": token.id, "text": token.text} for token in look.tokens],
                "causal": look.shape.sites["0"].causal,
                "weights": [round(weight, 4) for weight in look.pattern(head).flatten().tolist()],
                "shares": {
                    name: [round(number, 4) for number in (each.share, each.alone, each.by_distance)]
                    for name, each in look.where(head).shares.items()
                },
            }


if __name__ == "__main__":  # python -m tests.heads.questions.test_where
    CASES.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in page_cases()), encoding="utf-8")
