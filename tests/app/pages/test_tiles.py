"""Tiles of a pattern, through any measure, equal the dense pattern clipped and pooled."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headscope.app.pages import tiles
from headscope.app.pages.tiles import KEPT_LARGE, LARGEST_TILE, THUMBNAIL_SIDE, PatternTiles, WeightsRequest
from headscope.errors import InputError

LONG = " ".join(["the old lamp on landing burned until morning ."] * 20)
LENGTH = 180


@pytest.fixture(scope="module")
def look(scope):
    return scope.look(LONG)


@pytest.fixture
def seen(look):
    return PatternTiles(look)


def asked(**how) -> WeightsRequest:
    return WeightsRequest(**{"look": "x", "head": "1.2", "rows": (0, LENGTH), "columns": (0, LENGTH), **how})


def by_hand(pattern: torch.Tensor, pool: int, how: str) -> torch.Tensor:
    """Each cell over its own rows and columns; cells are as even as they can be."""
    height, width = (-(-side // pool) for side in pattern.shape)
    rows = [slice(i * pattern.shape[0] // height, (i + 1) * pattern.shape[0] // height) for i in range(height)]
    columns = [slice(j * pattern.shape[1] // width, (j + 1) * pattern.shape[1] // width) for j in range(width)]
    reduce = torch.amax if how == "max" else torch.mean
    return torch.stack([torch.stack([reduce(pattern[row, column]) for column in columns]) for row in rows])


@pytest.mark.parametrize("how", ["max", "mean"])
@pytest.mark.parametrize(
    ("rows", "columns", "pool"),
    [((0, 180), (0, 180), 8), ((0, 180), (0, 180), 7), ((13, 90), (2, 80), 3), ((100, 101), (0, 180), 9),
     ((5, 9), (1, 2), 64)],
)  # fmt: skip
def test_a_pooled_tile_equals_the_dense_pattern_pooled(seen, look, rows, columns, pool, how):
    card, found = seen.tile(asked(rows=rows, columns=columns, pool=pool, how=how))
    part = look.pattern("1.2")[slice(*rows), slice(*columns)]
    torch.testing.assert_close(found, by_hand(part, pool, how), atol=1e-6, rtol=1e-5)
    assert (card.rows, card.columns, card.pool, card.how) == (rows, columns, pool, how)


@pytest.mark.parametrize("pool", [1, 6])
def test_a_tile_is_clipped_to_the_text(seen, look, pool):
    card, found = seen.tile(asked(rows=(170, 512), columns=(90, 10_000), pool=pool))
    assert (card.rows, card.columns) == ((170, 180), (90, 180))
    assert found.shape == (-(-10 // pool), -(-90 // pool))
    assert float(found.max()) == pytest.approx(float(look.pattern("1.2")[170:, 90:].max()), abs=1e-6)


def test_a_tile_that_is_too_large_is_refused_with_its_size(seen, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", 180 * 180 - 1)
    with pytest.raises(InputError, match=r"180×180 weights are more than one answer holds \(32399\); raise pool=1"):
        seen.tile(asked())
    assert seen.tile(asked(pool=2))[1].shape == (90, 90)
    monkeypatch.setattr(tiles, "LARGEST_TILE", 180 * 180)
    assert seen.tile(asked())[1].shape == (180, 180)


def test_the_longest_text_fits_one_response_at_the_page_s_pooling():
    assert LARGEST_TILE >= (16_384 // 32) ** 2
    assert LARGEST_TILE >= 2_048**2


def test_small_tiles_are_recomputed_and_large_ones_cached(seen, monkeypatch):
    monkeypatch.setattr(tiles, "QUICK", 180 * 180)
    first, again = (seen.tile(asked(pool=4))[1] for _ in range(2))
    assert first is not again
    monkeypatch.setattr(tiles, "QUICK", 180 * 180 - 1)
    first, again = (seen.tile(asked(pool=4))[1] for _ in range(2))
    assert first is again
    assert seen.tile(asked(pool=4, how="mean"))[1] is not first
    assert seen.tile(asked(pool=4, head="1.3"))[1] is not first
    assert seen.tile(asked(pool=4, rows=(0, 179)))[1] is not first, "small enough again"


def test_the_least_recently_used_large_tile_is_dropped(seen, monkeypatch):
    monkeypatch.setattr(tiles, "QUICK", 1)
    heads = [f"{site}.{head}" for site in (0, 1) for head in range(6)]
    requests = [asked(head=head, pool=90, how=how) for how in ("max", "mean") for head in heads][: KEPT_LARGE + 1]
    kept = [seen.tile(wish)[1] for wish in requests[:KEPT_LARGE]]
    assert seen.tile(requests[0])[1] is kept[0]
    seen.tile(requests[KEPT_LARGE])
    assert seen.tile(requests[0])[1] is kept[0]
    assert seen.tile(requests[1])[1] is not kept[1]


def test_a_row_s_maximum_includes_the_first_key_unless_set_aside(seen, look):
    whole, aside = (seen.tile(asked(measure="row", aside=aside))[1] for aside in (False, True))
    torch.testing.assert_close(whole.amax(1), torch.ones(LENGTH), atol=1e-5, rtol=0)
    torch.testing.assert_close(aside[1:, 1:].amax(1), torch.ones(LENGTH - 1), atol=1e-5, rtol=0)
    pattern = look.pattern("1.2")
    sinks = pattern[1:, 0] > pattern[1:, 1:].amax(1)
    assert bool(sinks.any())
    assert bool((aside[1:, 0][sinks] > 1).all())


def test_heads_of_a_kv_group_share_their_value_norms(seen, look):
    _, one = seen.tile(asked(head="1.2", measure="value"))
    _, two = seen.tile(asked(head="1.3", measure="value"))
    norms = look.value_norms("1.2")
    torch.testing.assert_close(norms, look.value_norms("1.3"))
    torch.testing.assert_close(one, look.pattern("1.2") * norms, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(two, look.pattern("1.3") * norms, atol=1e-6, rtol=1e-5)


def test_thumbnails_are_equal_together_and_one_head_at_a_time(seen, scope, monkeypatch):
    site = scope.shape.sites["1"]
    together = seen.thumbnails(site)
    monkeypatch.setattr(tiles, "TOGETHER", 1)
    np.testing.assert_array_equal(seen.thumbnails(site), together)


def test_thumbnails_of_a_long_text_sample_rows_from_first_to_last(seen, look, scope, monkeypatch):
    monkeypatch.setattr(tiles, "DENSE_THUMBNAIL", 100)
    monkeypatch.setattr(tiles, "SAMPLED_ROWS", 64)
    rows = torch.linspace(0, LENGTH - 1, 64).long()
    assert (int(rows[0]), int(rows[-1])) == (0, LENGTH - 1)
    pattern = look.pattern("1.4")[rows]
    small = torch.nn.functional.adaptive_max_pool2d(pattern[None], (THUMBNAIL_SIDE, THUMBNAIL_SIDE))[0]
    found = seen.thumbnails(scope.shape.sites["1"])[4]
    np.testing.assert_array_equal(found, (small.sqrt() * 255).round().to(torch.uint8))
