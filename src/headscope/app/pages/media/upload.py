"""Pictures and sound that a client sends: decoded within limits, named so that only that client finds them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

from pydantic import Field

from headscope.app.pages.schema import Request
from headscope.errors import InputError
from headscope.models.inputs.media import MediaLimits, Picture, read_bytes

LIMITS = MediaLimits()
MAX_BASE64 = 4 * (LIMITS.n_bytes // 3) + 64
MAX_TEXT = 20_000


class MediaRequest(Request):
    """A picture or sound in base64, and the text that goes in with it or that the decoder has written."""

    data: str = Field(max_length=MAX_BASE64)
    text: str | None = Field(default=None, max_length=MAX_TEXT)

    def source(self) -> Any:
        """The picture or sound, within the limits, and its text: what ``scope.look`` takes."""
        try:
            data = base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(f"the file did not arrive whole ({error}); send it again") from error
        medium = read_bytes(data, LIMITS)
        if isinstance(medium, Picture):
            given: Any = medium.image
        else:
            given = {"array": medium.samples, "sampling_rate": medium.rate}
        return (given, self.text) if self.text else given

    def name(self, owner: str) -> str:
        """The name of a look at what one client has sent; no other client can find it by its content."""
        parts = (owner, self.data, "" if self.text is None else f"text {self.text}")
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
