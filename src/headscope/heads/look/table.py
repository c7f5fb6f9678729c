"""A look's statistics as a table, one row per head and statistic; and its patterns as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from headscope.heads.figure import MOST_CELLS, Figure, cell_figure, grid_figure, weight_pixels
from headscope.heads.head_table import HeadTable, of_head
from headscope.names import Head, HeadName

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


FINE, COARSE = 512, 48  # cells along a side of one pattern, and of one among others


def plot_look(look: Look, head: HeadName | int | None) -> Figure:
    """One head's pattern, cells darker for more weight; or every head's, a row per site."""
    if head is None:
        sites = [look.shape.sites[site].heads() for site in look.sites]
        images = [[weight_pixels(_weights(look, each, COARSE)) for each in heads] for heads in sites]
        names = [list(map(str, heads)) for heads in sites]
        return grid_figure(images, names, f"Every head's attention: {look.shape.name}, {len(look.tokens)} tokens")
    found = look.find(head)
    values, labels = _weights(look, found, FINE), list[list[str]]()
    for length, tokens in zip(values.shape, (look.query_tokens(found.site), look.key_tokens(found.site)), strict=True):
        named = length == len(tokens) and length <= MOST_CELLS
        labels.append([token.text for token in tokens] if named else [""] * length)
    rows, columns = labels
    return cell_figure(
        values, rows, columns, f"Head {found}: from each query (row) to keys", signed=False, numbers=False
    )


def _weights(look: Look, head: Head, side: int) -> NDArray[Any]:
    """A head's pattern, in at most so many rows and columns."""
    site = head.site
    sizes = len(look.query_tokens(site)), len(look.key_tokens(site))
    if max(sizes) <= side:
        return look.weights(head).float().cpu().numpy()
    return look.pooled(head, (min(side, sizes[0]), min(side, sizes[1]))).mean[0].float().cpu().numpy()
