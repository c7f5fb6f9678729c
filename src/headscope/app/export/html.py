"""Export one look as a single .html file: the page with its data inside, without server or network.

The file holds one container (wire.py) whose arrays are containers themselves, each named after the request that it is
the response to. What needs the model, such as another text or an ablation, is disabled there, and the page says so.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from headscope.app.export.saved_explanations import explained
from headscope.app.pages.attribution import AttributionRequest
from headscope.app.pages.microscope import LookRequest, Session
from headscope.app.pages.predictions import PredictRequest
from headscope.app.pages.schema import SCHEMA_VERSION
from headscope.app.pages.tiles import WeightsRequest
from headscope.app.wire import Arrays, numbers, pack
from headscope.attention.pattern import PatternSource
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.heads.look.look import Look
from headscope.scope import Scope

STATIC = Path(__file__).parents[1] / "static"
LARGEST = 48 * 2**20  # bytes of arrays: what a browser opens and a mail server accepts
DATA_ID, APP_ID = "headscope-data", "headscope-chat"
MOST_COMPARED = 100  # heads: the prediction without each is a pass
FLOAT = 4  # bytes of a weight in the file


def save_html(look: Look, path: Path | str) -> None:
    """Write the microscope with this look as one file."""
    write_atomic(Path(path), page(look).encode())


def page(look: Look) -> str:
    """The whole file: page, styles, font, script and data."""
    data = base64.b64encode(bundle(look)).decode("ascii")
    return assemble(f'<script type="text/plain" id="{DATA_ID}">{data}</script>')


def app_page() -> str:
    """The page of a chat's frame, without fonts: its host sends it the data of one head (web/src/source/chat.ts)."""
    return assemble(f'<script type="text/plain" id="{APP_ID}">chat</script>', fonts=False)


def assemble(
    data: str, name: str = "saved.html", extra: Sequence[str] = (), sources: str = "", *, fonts: bool = True
) -> str:
    """A built page as one document that needs no other file; ``data`` are the elements with what it shows.

    ``extra`` are further lines of its content security policy, ``sources`` what else its scripts may do.
    """
    html = (STATIC / name).read_text(encoding="utf-8")
    html = re.sub(r'<link rel="stylesheet"[^>]*href="\./([^"]+)">', lambda found: _style(found[1], fonts), html)
    script = re.search(r'\s*<script type="module"[^>]*src="\./([^"]+)"></script>', html)
    if script is None:
        raise InputError("the built page names no script; run `make web`")
    code = (STATIC / script[1]).read_text(encoding="utf-8").replace("</script", "<\\/script")
    body = f'{data}\n<script type="module">{code}</script>'
    html = html.replace(script[0], "").replace("</body>", f"{body}\n</body>")
    return html.replace("<title>", f"{_policy(html, f'{_digest(code)} {sources}'.strip(), extra)}\n    <title>", 1)


def _policy(html: str, scripts: str, extra: Sequence[str]) -> str:
    """A content security policy that allows the one script and the one stylesheet, and no requests."""
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    allowed = (
        "default-src 'none'",
        f"script-src {scripts}",
        f"style-src {_digest(style[1] if style else '')}",
        "font-src data:",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        *extra,
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(allowed)}">'


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def bundle(look: Look, head: str | None = None, *, published: bool = False) -> bytes:
    """Every response the page may need about this look, in one container; with ``head``, about its site alone.

    When ``published``: not explained, which is stored beside it, and with the prediction without each head.
    """
    sites = look.sites if head is None else (look.find(head).site,)
    recomputed = {site: _pattern_parts(look, site) for site in sites}
    size = sum(_nbytes(part[1]) if part else _weights_size(look, site) for site, part in recomputed.items())
    if size > LARGEST:
        raise InputError(
            f"{len(look.tokens)} tokens × {look.shape.n_heads} heads are {size / 2**20:.0f} MiB of numbers, more than "
            f"one file should hold ({LARGEST // 2**20} MiB); export a shorter text"
        )
    session = Session(Scope(look.model))
    name, last = session.adopt(look), len(look.written) - 1
    responses: dict[str, tuple[Any, Arrays]] = {"look": session.look(LookRequest(look=name))}
    for site, part in recomputed.items():
        if part:
            responses[f"parts {site}"] = part
            continue
        for each in look.shape.sites[site].heads():
            whole = WeightsRequest(look=name, head=str(each), rows=(0, 2**31), columns=(0, 2**31))
            responses[f"weights {each}"] = session.weights(whole)
    for site in sites:
        if look.query_tokens(site) == look.written:
            asked = AttributionRequest(look=name, site=site, position=last)
            with suppress(InputError):  # a look without weights has none
                responses[f"attribution {site} {last}"] = session.attribution(asked)
    compared = [str(each) for each in look.shape.heads()] if published and look.shape.n_heads <= MOST_COMPARED else []
    values = {
        "schema_version": SCHEMA_VERSION,
        "model": session.model(),
        "roles": session.roles(),
        "featured": session.featured(),
        "explained": explained(session, name, last) if head is None and not published else None,
        "predictions": [session.predict(PredictRequest(look=name, position=at)) for at in range(last + 1)],
        "without": {off: session.predict(PredictRequest(look=name, position=last, off=[off])) for off in compared},
    }
    return pack(values, {key: np.frombuffer(pack(*each), dtype=np.uint8) for key, each in responses.items()})


def _style(name: str, fonts: bool) -> str:
    """The stylesheet, with its fonts inside or with none."""
    folder = (STATIC / name).parent

    def inline(found: re.Match[str]) -> str:
        font = base64.b64encode((folder / found[1]).read_bytes()).decode("ascii")
        return f"url(data:font/woff2;base64,{font})"

    styles = re.sub(r"url\(\"?\./([^)\"]+\.woff2)\"?\)", inline, (STATIC / name).read_text(encoding="utf-8"))
    styles = styles if fonts else re.sub(r"@font-face\s*{[^}]*}", "", styles)
    return f"<style>{styles}</style>"


def _nbytes(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())


def _weights_size(look: Look, site: str) -> int:
    """Bytes of all weights of a site."""
    n_heads = look.shape.sites[site].n_heads
    return FLOAT * n_heads * len(look.query_tokens(site)) * len(look.key_tokens(site))


def _pattern_parts(look: Look, site: str) -> tuple[dict[str, float | None], Arrays] | None:
    """What p_ij = exp(cap(scale·q_i·k_j) − lse_i) is computed from, for the run of keys visible to each row.

    So q, k and one number per row stand for all weights of a head, in space that grows with the text and not with its
    square. The browser recomputes them where scores have a scale, a softcap and one run of keys per row. None where
    there is a bias or a mask with holes, or where the weights are smaller: then these are stored.
    """
    source = look.site_source(site)
    runs = _runs(source)
    if runs is None:
        return None
    parts = {"q": source.q[0], "k": source.k[0], "logsumexp": source.logsumexp[0]}
    arrays = {**{name: numbers(part) for name, part in parts.items()}, "runs": runs}
    values = {"scale": source.scores.scale, "softcap": source.scores.softcap}
    return (values, arrays) if _nbytes(arrays) < _weights_size(look, site) else None


def _runs(source: PatternSource) -> Int32[np.ndarray, "query 2"] | None:
    """Each row's first visible key and the first hidden one after it; None if a mask has holes between."""
    scores, n_query, n_key = source.scores, source.q.shape[2], source.k.shape[2]
    if scores.bias is not None:
        return None
    bounds = (scores.mask.visible_to_any, scores.mask.visible_to_all)
    some, every = ([keys(row, row + 1, n_key - n_query, n_key) for row in range(n_query)] for keys in bounds)
    return np.array(some, dtype=np.int32) if some == every else None
