"""The conclusions follow from the stored accuracies."""

from __future__ import annotations

from headscope.lab.teach.one_or_many import KEYS, ROLES, SOLVED, conclusions, on_partition, solved, stored_results


def test_the_stored_arms_bear_the_conclusions_out() -> None:
    stored = stored_results()
    many, wide, deep, ffn = (each for each in stored.arms if each.task == KEYS.name)
    assert 0 < solved(many) < len(many.accuracies), "two heads do not always learn it"
    assert wide.mean < 0.2 < 0.5 < sum(wide.parts_right) / len(wide.parts_right), "it finds one of the two"
    assert min(deep.mean, ffn.mean) >= SOLVED, "depth and a bigger FFN replace heads"
    assert all(each.mean >= SOLVED for each in stored.arms if each.task == ROLES.name)
    first, second, *_ = conclusions(stored)
    assert f"2 heads find both values {100 * many.mean:.0f}% of the time" in first
    assert f"{solved(many)} of {len(many.accuracies)} seeds solve the task" in second


def test_the_stored_partition_bears_the_conclusions_out() -> None:
    stored = stored_results()
    assert len({each.n_parameters for each in stored.partition}) == 1
    best, last = max(stored.partition, key=lambda each: each.mean), stored.partition[-1]
    assert last.d_head == 1
    assert last.mean < best.mean - 0.02, "the narrowest heads are worse"
    near = {each.n_heads for each in stored.partition if each.mean >= best.mean - 0.02}
    overlap = {each.n_heads for each in stored.partition if each.interval[1] > best.interval[0]} - near
    said = on_partition(stored)
    assert f"The best have {', '.join(map(str, sorted(near)))} heads" in said[0]
    assert overlap
    assert said[1].startswith(f"The intervals of {', '.join(map(str, sorted(overlap)))} overlap with the best")
