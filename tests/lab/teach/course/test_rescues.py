"""What helps one head: the stored results say what the lesson says."""

from __future__ import annotations

from bench.rescues import rescue_arms

from headscope.lab.teach.lookup_tasks import Budget
from headscope.lab.teach.one_or_many import KEYS, RESCUE_WIDTHS, SOLVED, compare, rescues


def test_one_head_and_a_wider_one_fail_and_the_others_help() -> None:
    found = {each.name: each for each in rescues()}
    assert [arm.name for arm in rescue_arms(RESCUE_WIDTHS["wide"])] == list(found)
    assert found["one head"].solved == found["twice as wide"].solved == 0
    assert max(found["one head"].mean, found["twice as wide"].mean) < 0.3
    assert all(found[name].mean > 0.8 for name in ("a second head", "another layer", "a bigger FFN"))
    assert next(each.mean for each in rescues("narrow") if each.name == "a bigger FFN") < SOLVED, "it needs room"
    assert all(each.says for each in found.values())


def test_the_arms_train() -> None:
    (outcome,) = compare(KEYS, rescue_arms(8)[:1], 1, Budget(d_model=8, steps=2, test_rows=16))
    assert outcome.arm == "one head"
