"""A look as an Arrow table: one row per head and statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headscope.names import Head

if TYPE_CHECKING:
    import pyarrow as pa

    from headscope.heads.look.look import Look

TRAITS = ("entropy", "distance", "distance_std", "strongest")


def head_table(look: Look) -> pa.Table:
    """Columns ``head``, ``site``, ``index``, ``statistic`` and ``mean``, the mean over the rows that can answer.

    Statistics are entropy (nats), distance and its standard deviation (tokens), the largest weight of a row, and the
    mass on each standard question that this text can answer.
    """
    import pyarrow as pa

    rows = []
    for site in look.sites:
        seen = look.statistics(site)
        assert seen.entropy is not None
        assert seen.distance is not None
        assert seen.strongest is not None
        traits = (seen.entropy, seen.distance.mean, seen.distance.std, seen.strongest.weight)
        means = {name: values[0].mean(-1) for name, values in zip(TRAITS, traits, strict=True)}
        for statistic, values in (means | look.mean_answers(site)).items():
            for index, mean in enumerate(values.tolist()):
                rows.append(
                    {"head": str(Head(site, index)), "site": site, "index": index, "statistic": statistic, "mean": mean}
                )
    return pa.Table.from_pylist(rows)
