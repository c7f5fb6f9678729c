"""What results have that are tables; those with numbers per head, a matrix ``[layer, head]`` and a picture too."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.figure import Figure, cell_figure
from headscope.names import Head

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 10


class Rows:
    """A result that is a table."""

    def _rows(self) -> Sequence[dict[str, Any]]:
        """A dictionary per row, from column to value."""
        raise NotImplementedError

    def table(self) -> pa.Table:
        """An Arrow table of all rows."""
        import pyarrow as pa

        return pa.Table.from_pylist(list(self._rows()))

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        try:
            return self.table().to_pandas()
        except ImportError as error:
            raise InputError("to_pandas() needs pandas: pip install pandas. table() needs nothing more") from error


class HeadTable(Rows):
    """A result with a row per head, or several rows with a name each: per statistic, class, question or role.

    Every row begins with ``head``, ``site`` and ``index``.
    """

    _column: ClassVar[str]
    """The column that a matrix holds."""
    _by: ClassVar[str] = ""
    """The column with the name of a row, where a head has several."""
    _signed: ClassVar[bool] = False
    """Whether values are differences, and not shares."""

    def matrix(self, name: str | None = None) -> Float[Tensor, "layer head"]:
        """One number per head; NaN if there is none. ``name`` chooses among several rows of a head."""
        return self._placed(name)[1]

    def plot(self, name: str | None = None) -> Figure:
        """The layer × head map of one number per head: ``.save("map.svg")``, .pdf or .png; a notebook shows it."""
        sites, values = self._placed(name)
        heads = list(map(str, range(values.shape[1])))
        title = ", ".join(filter(None, (self._title(), name or self._names(self._rows())[0])))
        return cell_figure(values.double().numpy(), sites, heads, title, signed=self._signed, numbers=True)

    def _title(self) -> str:
        return self._column

    def _names(self, rows: Sequence[dict[str, Any]]) -> list[str]:
        return list(dict.fromkeys(row[self._by] for row in rows)) if self._by else [""]

    def _placed(self, name: str | None) -> tuple[list[str], Float[Tensor, "layer head"]]:
        """The sites in order, and the number of each of their heads."""
        rows = self._rows()
        names = self._names(rows)
        if not rows:
            raise InputError("nothing was measured here, so there is no matrix and no map")
        if name is not None and name not in names:
            raise InputError(f"there is nothing called {name!r} here; there are {', '.join(filter(None, names))}")
        chosen = [row for row in rows if not self._by or row[self._by] == (name or names[0])]
        sites = sorted({row["site"] for row in rows}, key=lambda site: [_natural(part) for part in site.split(".")])
        values = torch.full((len(sites), 1 + max(row["index"] for row in rows)), math.nan)
        for row in chosen:
            if row[self._column] is not None:
                values[sites.index(row["site"]), row["index"]] = row[self._column]
        return sites, values

    def ranked_rows(self) -> list[dict[str, Any]]:
        """The rows that have a number, the largest first."""
        rows = [row for row in self._rows() if row[self._column] is not None and not math.isnan(row[self._column])]
        return sorted(rows, key=lambda row: -abs(row[self._column]))

    def listed(self, count: int = SHOWN) -> str:
        """The ``count`` largest numbers as lines, under what they are."""
        rows, form = self.ranked_rows(), "+.3f" if self._signed else ".3f"
        lines = [f"  {self._label(row)} {row[self._column]:{form}}  {row.get(self._by, '')}" for row in rows[:count]]
        more = [f"  … {len(rows) - count} more: --count, or .table() in Python"] if len(rows) > count else []
        return "\n".join((self._title(), *map(str.rstrip, lines), *more))

    def _label(self, row: dict[str, Any]) -> str:
        return f"{row['head']:<6}"

    def __str__(self) -> str:
        return self.listed()

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str:
        return self.plot().svg()


def of_head(head: Head) -> dict[str, Any]:
    """The columns that name a head."""
    return {"head": str(head), "site": head.site, "index": head.head}


def _natural(part: str) -> tuple[int, str]:
    return (int(part), "") if re.fullmatch("[0-9]+", part) else (-1, part)
