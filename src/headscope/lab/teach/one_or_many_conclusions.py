"""Conclusions in words, drawn from the results of the one-or-many experiment."""

from __future__ import annotations

from headscope.lab.teach.one_or_many import KEYS, PARTITION, PARTITION_WIDTH, ROLES, SOLVED, Outcome, Results


def conclusions(results: Results) -> list[str]:
    """Conclusions about the arms, one sentence or two per line; each depends on the measured accuracies."""
    many, wide, deep, ffn = (outcome for outcome in results.arms if outcome.task == KEYS.name)
    chance = f"guessing gives {KEYS.chance:.3f}"
    lines = [
        f"{_cap(many.arm)} find both values {_percent(many)} of the time; {wide.arm} with as many parameters finds "
        f"both {_percent(wide)} of the time ({chance}). It gets {100 * _mean(wide.parts_right):.0f}% of the single "
        "values right. It can attend to both keys at once, but it returns one average of their values. This does not "
        "show which was asked first."
    ]
    n_solved = solved(many)
    if 0 < n_solved < len(many.accuracies):
        lines.append(
            f"Two heads do not always learn to divide the work: {n_solved} of {len(many.accuracies)} seeds solve the "
            "task. The others had not learned it when training ended."
        )
    for outcome, what in ((deep, "Depth can replace heads"), (ffn, "So can a bigger FFN")):
        if outcome.mean >= SOLVED:
            lines.append(f"{what} here: {outcome.arm}, reaches {_percent(outcome)}. {_WHY[outcome.arm]}")
        else:
            lines.append(f"{_cap(outcome.arm)}, reaches {_percent(outcome)}: it did not catch up in this many steps.")
    roles = [outcome for outcome in results.arms if outcome.task == ROLES.name]
    lines.append(_on_roles(roles))
    return lines


_WHY = {
    "one head, more layers": "The first layer fetches one value and the second layer the other, one after the other.",
    "one head, bigger FFN": "The average still contains both tokens, and an FFN can compare them with the question.",
}


def _on_roles(roles: list[Outcome]) -> str:
    if all(outcome.mean >= SOLVED for outcome in roles):
        return (
            "If each value's own token shows which answer it is, every variant solves the task, even one wide head: it "
            "averages two tokens that can be told apart again. So finding two things does not always need two heads; "
            "asking two questions whose answers look alike does."
        )
    shown = ", ".join(f"{outcome.arm} {_percent(outcome)}" for outcome in roles)
    return f"If each value's own token shows which answer it is: {shown}."


def on_partition(results: Results) -> list[str]:
    """Conclusions about one width divided into 1, 2, 4 … heads."""
    best = max(results.partition, key=lambda outcome: outcome.mean)
    near = [outcome for outcome in results.partition if outcome.mean >= best.mean - 0.02]
    counts = ", ".join(str(outcome.n_heads) for outcome in near)
    last = results.partition[-1]
    narrow = f"{last.n_heads} heads of {last.d_head} number{'s' if last.d_head > 1 else ''} each"
    alike = len({outcome.n_parameters for outcome in results.partition}) == 1
    lines = [
        f"This is the first task again, in a narrower model (width {PARTITION_WIDTH}) and with {PARTITION.n_keys} "
        f"keys. {'All variants have the same number of parameters. ' if alike else ''}The best have {counts} heads "
        f"(within 2 points of {_percent(best)}); one head reaches {_percent(results.partition[0])}."
    ]
    rivals = [each for each in results.partition if each not in near and each.interval[1] > best.interval[0]]
    if rivals:
        names = ", ".join(str(each.n_heads) for each in rivals)
        lines.append(
            f"The intervals of {names} overlap with the best. Runs either solve the task or stay stuck, and "
            f"{results.seeds} of them are too few to rank the counts. How many runs solved it tells more than the mean."
        )
    if last.mean < best.mean - 0.02:
        lines.append(
            f"With {narrow} it is only {_percent(last)}: there are more questions, but too few numbers per head to "
            f"tell {PARTITION.n_keys} keys apart. Heads divide the width; they do not add to it."
        )
    else:
        lines.append(
            f"Even {narrow} reach {_percent(last)}: on a task this small, many narrow heads together still tell the "
            "keys apart. This experiment does not show whether narrow heads fail when there are many keys."
        )
    lines.append(
        "This is the second set-up that we tried. In the first, twice as wide and with fewer keys, narrow heads did "
        "not fail (bench/LOG.md has its numbers). So where scores begin to fall depends on the width and on the number "
        "of keys."
    )
    return lines


def solved(outcome: Outcome) -> int:
    """Count the seeds whose accuracy reaches the threshold."""
    return sum(each >= SOLVED for each in outcome.accuracies)


def _percent(outcome: Outcome) -> str:
    return f"{100 * outcome.mean:.0f}%"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _cap(text: str) -> str:
    return text[0].upper() + text[1:]
