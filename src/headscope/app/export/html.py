"""One look as a single .html file: the same page, its numbers inside, no server and no network.

The file holds one container (wire.py) whose arrays are containers themselves, each under the name of the request that
it answers. What needs the model, such as another text or a head switched off, is disabled there, and the page says so.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import numpy as np

from headscope.app.export import saved_patterns
from headscope.app.pages import schema
from headscope.app.pages.microscope import Session
from headscope.app.wire import Arrays, pack
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.heads.look.look import Look
from headscope.scope import Scope

STATIC = Path(__file__).parents[1] / "static"
LARGEST = 48 * 2**20  # bytes of numbers; a browser opens that, a mail does not carry more
DATA_ID = "headscope-data"


def save_html(look: Look, path: Path | str) -> None:
    """Write the microscope with this look in it."""
    write_atomic(Path(path), page(look).encode())


def page(look: Look) -> str:
    """The whole file: page, styles, typeface, program and numbers."""
    data = base64.b64encode(bundle(look)).decode("ascii")
    return assemble(f'<script type="text/plain" id="{DATA_ID}">{data}</script>')


def assemble(told: str) -> str:
    """The built page as one text that needs no other file; ``told`` is the element that says what it shows."""
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    html = re.sub(r'\s*<link rel="icon"[^>]*>', "", html)
    html = re.sub(r'<link rel="stylesheet"[^>]*href="\./([^"]+)">', lambda found: _style(found[1]), html)
    script = re.search(r'\s*<script type="module"[^>]*src="\./([^"]+)"></script>', html)
    if script is None:
        raise InputError("the built page names no script; run `make web`")
    program = (STATIC / script[1]).read_text(encoding="utf-8").replace("</script", "<\\/script")
    body = f'{told}\n<script type="module">{program}</script>'
    html = html.replace(script[0], "").replace("</body>", f"{body}\n</body>")
    return html.replace("<title>", f"{_policy(html, program)}\n    <title>", 1)


def _policy(html: str, program: str) -> str:
    """What a browser lets this file do: run its one script, use its one stylesheet, and ask for nothing."""
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    allowed = (
        "default-src 'none'",
        f"script-src {_digest(program)}",
        f"style-src {_digest(style[1] if style else '')}",
        "font-src data:",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(allowed)}">'


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def bundle(look: Look) -> bytes:
    """Every answer the page may need about this look, in one container."""
    made = {site: saved_patterns.parts(look, site) for site in look.sites}
    size = sum(part.nbytes if part else saved_patterns.weights_size(look, site) for site, part in made.items())
    if size > LARGEST:
        raise InputError(
            f"{len(look.tokens)} tokens × {look.shape.n_heads} heads are {size / 2**20:.0f} MiB of numbers, more than "
            f"one file should hold ({LARGEST // 2**20} MiB); export a shorter text"
        )
    session = Session(Scope(look.model))
    name = session.adopt(look)
    answers: Arrays = {"look": _packed(*session.look(schema.LookRequest(look=name)))}
    for site, part in made.items():
        if part:
            answers[f"parts {site}"] = np.frombuffer(pack(part.values, part.arrays), dtype=np.uint8)
            continue
        for head in look.shape.sites[site].heads():
            whole = schema.WeightsRequest(look=name, head=str(head), rows=(0, 2**31), columns=(0, 2**31))
            answers[f"weights {head}"] = _packed(*session.weights(whole))
    last = len(look.written) - 1
    for site in look.sites:
        if look.query_tokens(site) == look.written:
            answers[f"mix {site} {last}"] = _packed(
                *session.mix(schema.MixRequest(look=name, site=site, position=last))
            )
    predictions = [session.predict(schema.PredictRequest(look=name, position=at)) for at in range(last + 1)]
    values = {
        "schema_version": schema.SCHEMA_VERSION,
        "model": session.model().model_dump(mode="json"),
        "roles": session.roles().model_dump(mode="json"),
        "featured": session.featured().model_dump(mode="json"),
        "predictions": [told.model_dump(mode="json") for told in predictions],
    }
    return pack(values, answers)


def _packed(card: schema.Strict, arrays: Arrays) -> np.ndarray:
    return np.frombuffer(pack(card.model_dump(mode="json"), arrays), dtype=np.uint8)


def _style(name: str) -> str:
    """The stylesheet with its typeface inside."""
    folder = (STATIC / name).parent

    def inline(found: re.Match[str]) -> str:
        font = base64.b64encode((folder / found[1]).read_bytes()).decode("ascii")
        return f"url(data:font/woff2;base64,{font})"

    styles = re.sub(r"url\(\"?\./([^)\"]+\.woff2)\"?\)", inline, (STATIC / name).read_text(encoding="utf-8"))
    return f"<style>{styles}</style>"
