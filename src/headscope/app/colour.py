"""The colour scale of attention weights: nine stops over the square root of the weight, interpolated linearly."""

from __future__ import annotations

STOPS = ("F5F2EB", "DED6BA", "BFBBA6", "9DA09C", "7B8693", "5D6C86", "415378", "2A3967", "151F56")


def weight_colour(weight: float) -> tuple[int, int, int]:
    """Red, green and blue of a weight between 0 and 1, on a light background."""
    place = max(0.0, min(1.0, weight)) ** 0.5 * (len(STOPS) - 1)
    below = min(int(place), len(STOPS) - 2)
    part = place - below
    first, second = (tuple(bytes.fromhex(STOPS[i])) for i in (below, below + 1))
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, second, strict=True))
    return red, green, blue
