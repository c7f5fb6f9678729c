"""A look's statistics as a table: one row per head and statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headscope.heads.head_table import HeadTable, of_head
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

TRAITS = ("entropy", "distance", "distance_std", "strongest")


class HeadStatistics(HeadTable):
    """Columns ``head``, ``site``, ``index``, ``statistic`` and ``mean``, the mean over rows of the text.

    Statistics are entropy (nats), distance and its standard deviation (tokens), the largest weight of a row, over rows
    with a choice; and the mass on each standard question that this text can answer, over the rows that can.
    """

    _column, _by = "mean", "statistic"

    def __init__(self, look: Look) -> None:
        self.look = look

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for site in self.look.sites:
            for statistic, values in (self.look.mean_traits(site) | self.look.mean_answers(site)).items():
                for index, mean in enumerate(values.tolist()):
                    rows.append({**of_head(Head(site, index)), "statistic": statistic, "mean": mean})
        return rows

    def _title(self) -> str:
        return "Mean over this text"
