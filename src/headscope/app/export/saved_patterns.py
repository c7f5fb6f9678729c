"""A site's patterns for a saved page: the weights themselves, or what a browser makes them from, whichever is smaller.

A weight is exp(s_ij − lse_i), so q, k and one number a row stand for all weights of a head, in space that grows with
the text and not with its square. The browser can do that where scores are a scale, a cap and a run of keys a row;
where a bias or a mask with holes is in the way, the weights travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32

from headscope.app.wire import Arrays, numbers
from headscope.attention.pattern import Source
from headscope.heads.look.look import Look

FLOAT = 4  # bytes of a weight in the file


@dataclass(frozen=True)
class Parts:
    """All that p_ij = exp(cap(scale·q_i·k_j) − lse_i) needs, for the run of keys that each row sees."""

    values: Mapping[str, float | None]
    arrays: Arrays

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def weights_size(look: Look, site: str) -> int:
    """Bytes of all weights of a site."""
    n_heads = look.shape.sites[site].n_heads
    return FLOAT * n_heads * len(look.query_tokens(site)) * len(look.key_tokens(site))


def parts(look: Look, site: str) -> Parts | None:
    """What a site's patterns are made from; None where the weights are smaller, or cannot be made so."""
    source = look.site_source(site)
    runs = _runs(source)
    if runs is None:
        return None
    arrays = {"q": numbers(source.q[0]), "k": numbers(source.k[0]), "logsumexp": numbers(source.logsumexp[0])}
    scores = source.scores
    found = Parts({"scale": scores.scale, "softcap": scores.softcap}, {**arrays, "runs": runs})
    return found if found.nbytes < weights_size(look, site) else None


def _runs(source: Source) -> Int32[np.ndarray, "query 2"] | None:
    """For each row the first key it sees and the first after it that it does not; None if there are holes between."""
    scores, n_query, n_key = source.scores, source.q.shape[2], source.k.shape[2]
    if scores.bias is not None:
        return None
    bounds = (scores.mask.visible_to_any, scores.mask.visible_to_all)
    any_row, all_rows = ([side(row, row + 1, n_key - n_query, n_key) for row in range(n_query)] for side in bounds)
    return np.array(any_row, dtype=np.int32) if any_row == all_rows else None
