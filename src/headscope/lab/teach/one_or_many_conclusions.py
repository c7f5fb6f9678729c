"""Conclusions in words, drawn from the results of the one-or-many experiment."""

from __future__ import annotations

from headscope.lab.teach.one_or_many import KEYS, PARTITION, PARTITION_WIDTH, ROLES, SOLVED, Outcome, Results


def conclusions(results: Results) -> list[str]:
    """Conclusions about the arms, one sentence or two per line; each depends on the measured accuracies."""
    many, wide, deep, ffn = (outcome for outcome in results.arms if outcome.task == KEYS.name)
    chance = f"guessing gives {KEYS.chance:.3f}"
    lines = [
        f"{_cap(many.arm)} find both values {_percent(many)} of the time; {wide.arm} with as many parameters "
        f"{_percent(wide)} ({chance}). It gets {100 * _mean(wide.parts_right):.0f} % of the parts right: it can "
        "look at both keys at once, but their values arrive as one average, and which was asked first is lost."
    ]
    n_solved = solved(many)
    if 0 < n_solved < len(many.accuracies):
        lines.append(
            f"Having two heads is no promise that they will share the work: {n_solved} of {len(many.accuracies)} seeds "
            "solve the task; in the rest they had not learned to when training ended."
        )
    for outcome, what in ((deep, "Depth can stand in for heads"), (ffn, "So can a bigger FFN")):
        if outcome.mean >= SOLVED:
            lines.append(f"{what} here: {outcome.arm}, reaches {_percent(outcome)}. {_WHY[outcome.arm]}")
        else:
            lines.append(f"{_cap(outcome.arm)}, reaches {_percent(outcome)}: it did not catch up in this many steps.")
    roles = [outcome for outcome in results.arms if outcome.task == ROLES.name]
    lines.append(_on_roles(roles))
    return lines


_WHY = {
    "one head, more layers": "The first layer fetches one value, the second the other: in turn, not at once.",
    "one head, bigger FFN": "The average still holds both tokens, and an FFN can compare them with the question.",
}


def _on_roles(roles: list[Outcome]) -> str:
    if all(outcome.mean >= SOLVED for outcome in roles):
        return (
            "Where each value's own token says what it is for, every arm solves the task, one wide head too: it "
            "averages two tokens that can be told apart again. Two things to find do not by themselves need two heads; "
            "two questions whose answers look alike do."
        )
    shown = ", ".join(f"{outcome.arm} {_percent(outcome)}" for outcome in roles)
    return f"Where each value's own token says what it is for: {shown}."


def on_partition(results: Results) -> list[str]:
    """Conclusions about one width divided into 1, 2, 4 … heads."""
    best = max(results.partition, key=lambda outcome: outcome.mean)
    near = [outcome for outcome in results.partition if outcome.mean >= best.mean - 0.02]
    counts = ", ".join(str(outcome.n_heads) for outcome in near)
    last = results.partition[-1]
    narrow = f"{last.n_heads} heads of {last.d_head} number{'s' if last.d_head > 1 else ''} each"
    alike = len({outcome.n_parameters for outcome in results.partition}) == 1
    lines = [
        f"The first task again, in a narrower model (width {PARTITION_WIDTH}) and among {PARTITION.n_keys} keys. "
        f"{'All have the same number of parameters. ' if alike else ''}Best are {counts} heads "
        f"(within 2 points of {_percent(best)}); one head reaches {_percent(results.partition[0])}."
    ]
    rivals = [each for each in results.partition if each not in near and each.interval[1] > best.interval[0]]
    if rivals:
        names = ", ".join(str(each.n_heads) for each in rivals)
        lines.append(
            f"The intervals of {names} overlap with the best: runs either solve the task or stay stuck, and "
            f"{results.seeds} of them do not rank the counts; how many solved it says more than the mean."
        )
    if last.mean < best.mean - 0.02:
        lines.append(
            f"At {narrow} it is down to {_percent(last)}: more questions, but so few numbers each to tell "
            f"{PARTITION.n_keys} keys apart with. Heads are a partition of the width, not an addition to it."
        )
    else:
        lines.append(
            f"Even {narrow} reach {_percent(last)}: on a task this small many narrow heads together still tell the "
            "keys apart. That narrow heads fail where keys are many, this experiment does not show."
        )
    lines.append(
        "This is the second set-up that was tried. In the first, twice as wide and among fewer keys, narrow heads did "
        "not fail (bench/LOG.md has its numbers): where the fall begins depends on the width and on how much there is "
        "to tell apart."
    )
    return lines


def solved(outcome: Outcome) -> int:
    """Count the seeds whose accuracy reaches the threshold."""
    return sum(each >= SOLVED for each in outcome.accuracies)


def _percent(outcome: Outcome) -> str:
    return f"{100 * outcome.mean:.0f} %"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _cap(text: str) -> str:
    return text[0].upper() + text[1:]
