"""Say at once that a model of the Hugging Face hub can neither be found on this machine nor fetched."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

from headscope.errors import ModelError

PATIENCE = 5.0  # seconds


def refuse_unreachable(name: str) -> None:
    """Refuse a model that is not in the cache while the hub cannot be reached: its client would retry for 23 s."""
    from huggingface_hub import constants, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json"), str) or getproxies():
        return
    hub = urlsplit(constants.ENDPOINT)
    try:
        if constants.HF_HUB_OFFLINE:
            raise OSError("HF_HUB_OFFLINE is set")
        socket.create_connection((hub.hostname or "", hub.port or 443), PATIENCE).close()
    except OSError as error:
        raise ModelError(
            f"{name} is not on this machine, and {hub.hostname} cannot be reached ({error.strerror or error}). Give a "
            "folder that holds config.json and safetensors, or no name for the built-in model"
        ) from error
