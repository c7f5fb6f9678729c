"""A look's picture or sound as the page draws it: what the model read, and where its positions lie in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.app.wire import Arrays, numbers
from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.models.inputs.media_positions import (
    PatchGrid,
    ShownPicture,
    image_token_grid,
    image_token_id,
    listed_grid,
    patch_grid,
    picture_read,
    seconds_covered,
)
from headscope.models.protocol import Token

WAVEFORM_BINS = 1_200


class MediaInfo(Response):
    """A picture or sound that was read.

    Arrays beside it: ``picture`` uint8 [row, column, 3], the pixels the model has read; ``waveform`` float32
    [bin, 2], the lowest and highest sample of each part of the sound.
    """

    kind: Literal["picture", "sound"]
    grids: dict[str, PatchGrid] = Field(description="by token sequence: which of its positions are patches")
    covered: dict[str, float] = Field(description="by token sequence: the seconds that its positions cover")
    seconds: float | None = Field(default=None, description="how long the sound is")
    note: str = ""


class ReceivedRequest(Request):
    """How much attention each key of a head receives."""

    look: LookName
    head: PartName


class ReceivedResponse(Response):
    """Mean weight per key over all queries. Arrays: ``received`` float32 [key]. ``sink``: the key with most of it."""

    look: str
    head: str
    sink: int


def media_info(look: Look, streams: Mapping[str, Sequence[Token]]) -> tuple[MediaInfo | None, Arrays]:
    """What the page draws of a look's picture or sound; ``streams`` are its token sequences by name."""
    shown = picture_of(look)
    grids = media_grids(look, streams)
    if isinstance(shown, ShownPicture):
        return MediaInfo(kind="picture", grids=grids, covered={}, note=shown.note), {"picture": shown.pixels}
    if shown is not None:
        return MediaInfo(kind="picture", grids={}, covered={}, note=shown), {}
    covered = {name: seconds for name, tokens in streams.items() if (seconds := seconds_covered(tokens)) is not None}
    samples, rate = look.prepared.samples, look.prepared.sampling_rate
    if samples is None and not covered:
        return None, {}
    seconds = None if samples is None or rate is None else len(samples) / rate
    arrays: Arrays = {} if samples is None else {"waveform": waveform(samples.numpy())}
    return MediaInfo(kind="sound", grids={}, covered=covered, seconds=seconds), arrays


def picture_of(look: Look) -> ShownPicture | str | None:
    """The picture that a look's model has read; why it cannot be shown; None where there is none."""
    return picture_read(look.prepared.inputs, _image_processor(look))


def media_grids(look: Look, streams: Mapping[str, Sequence[Token]]) -> dict[str, PatchGrid]:
    """The grids of patches, by token sequence: those of a vision tower, and of image tokens within a text."""
    grids = {name: grid for name, tokens in streams.items() if (grid := patch_grid(tokens)) is not None}
    vision = next(iter(grids.values()), None) or listed_grid(look.prepared.inputs)
    for name, tokens in streams.items():
        placed = None if name in grids else image_token_grid(tokens, _image_token(look), vision)
        if placed is not None:
            grids[name] = placed
    return grids


def waveform(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The lowest and highest sample of each of at most ``WAVEFORM_BINS`` equal parts."""
    parts = np.array_split(samples, min(WAVEFORM_BINS, len(samples)))
    return np.array([(part.min(), part.max()) for part in parts], dtype=np.float32)


def received(look: Look, asked: ReceivedRequest) -> tuple[ReceivedResponse, Arrays]:
    """The mean weight that each key receives from one head, and the key that receives most."""
    head = look.shape.find(asked.head)
    n_keys = look.site_source(head.site).k.shape[2]
    mean = look.pooled(head, (1, n_keys)).mean[0, 0]
    found = ReceivedResponse(look=asked.look, head=asked.head, sink=int(mean.argmax()))
    return found, {"received": numbers(mean)}


def _image_token(look: Look) -> int | None:
    try:
        config = getattr(look.model.model, "config", None)
    except InputError:  # a saved look without its model
        return None
    return image_token_id(config)


def _image_processor(look: Look) -> Any:
    try:
        return look.model.processor.media.image
    except InputError:  # a saved look without its model
        return None
