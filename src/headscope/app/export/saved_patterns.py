"""A site's patterns for an exported page: the weights, or q, k and logsumexp to recompute them, whichever is smaller.

A weight is exp(s_ij − lse_i), so q, k and one number per row stand for all weights of a head, in space that grows with
the text and not with its square. The browser can recompute them where scores have a scale, a softcap and one run of
keys per row; where there is a bias or a mask with holes, the weights are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32

from headscope.app.wire import Arrays, numbers
from headscope.attention.pattern import PatternSource
from headscope.heads.look.look import Look

FLOAT = 4  # bytes of a weight in the file


@dataclass(frozen=True)
class Parts:
    """What p_ij = exp(cap(scale·q_i·k_j) − lse_i) is computed from, for the run of keys visible to each row."""

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
    """What a site's patterns can be recomputed from; None where the weights are smaller, or cannot be recomputed."""
    source = look.site_source(site)
    runs = _runs(source)
    if runs is None:
        return None
    arrays = {"q": numbers(source.q[0]), "k": numbers(source.k[0]), "logsumexp": numbers(source.logsumexp[0])}
    scores = source.scores
    found = Parts({"scale": scores.scale, "softcap": scores.softcap}, {**arrays, "runs": runs})
    return found if found.nbytes < weights_size(look, site) else None


def _runs(source: PatternSource) -> Int32[np.ndarray, "query 2"] | None:
    """Each row's first visible key and the first hidden one after it; None if a mask has holes between."""
    scores, n_query, n_key = source.scores, source.q.shape[2], source.k.shape[2]
    if scores.bias is not None:
        return None
    bounds = (scores.mask.visible_to_any, scores.mask.visible_to_all)
    some, every = ([keys(row, row + 1, n_key - n_query, n_key) for row in range(n_query)] for keys in bounds)
    return np.array(some, dtype=np.int32) if some == every else None
