"""The policy of the document in which a lesson's code runs: no origin, no connection, only the page may frame it."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "python"
DOCUMENT = "/python/sandbox.html"


@cache
def headers() -> dict[str, str]:
    """Headers that replace the guard's for this one document."""
    policy = (*page_policy(), "frame-ancestors 'self'", "sandbox allow-scripts")
    return {"X-Frame-Options": "SAMEORIGIN", "Content-Security-Policy": "; ".join(policy)}


def page_policy() -> tuple[str, ...]:
    """The part of its policy that a document may also state itself, where no server adds headers.

    Its own inline script is allowed by its hash; what that starts comes from ``blob:`` URLs of the document itself.
    """
    text = (FOLDER / "sandbox.html").read_text(encoding="utf-8")
    (script,) = re.findall("<script>(.*?)</script>", text, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'",
        f"script-src 'sha256-{digest}' 'wasm-unsafe-eval' blob:",
        "worker-src blob:",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
