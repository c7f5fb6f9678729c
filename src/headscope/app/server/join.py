"""The form with which a student joins a class: the only page that is served without the token. It has no script."""

from __future__ import annotations

import base64
import hashlib
import html
from http import HTTPStatus
from string import Template

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headscope.app.pages.course.classroom import Classroom
from headscope.app.server.clients import COOKIE, RateLimiter, browser_id
from headscope.app.server.token import AccessToken

PATH = "/class"
ARRIVED = "/#joined"
TRIES_AT_ONCE, TRIES_PER_SECOND = 128.0, 1.0  # wrong codes of one address: a class behind it may mistype at once

# six cells of the width --c, each above its own rule; what is typed is spaced to stand in them
STYLE = """
:root{--paper:#fcfbf8;--ink:#1a1b1f;--ink-2:#55565b;--ink-3:#6f6f74;--control:#918e85;--line:#e6e3da;--h1:#0b7a75;
--accent:#cf3f20;--c:min(calc((100vw - 32px)/7),84px)}
@media (prefers-color-scheme:dark){:root{--paper:#131519;--ink:#eceae4;--ink-2:#b4b2ab;--ink-3:#8e8d89;
--control:#6c717b;--line:#272a31;--h1:#3fc7b6;--accent:#ff7a58}}
*{box-sizing:border-box;margin:0;padding:0}
body{background:var(--paper);color:var(--ink);font:16px/24px Charter,"Bitstream Charter",Georgia,serif}
main{max-width:620px;min-height:100svh;margin:0 auto;padding:0 16px 12px;display:flex;flex-direction:column}
b,header,label,button,h2{font-family:system-ui,sans-serif}
header{font-weight:600;padding:12px 0;border-bottom:1px solid var(--line)}
svg{display:block;width:100%;max-width:360px;margin:22px 0 14px}
path{fill:none;stroke:var(--h1)}text{fill:var(--ink);font-size:20px;text-anchor:middle}.it{fill:var(--accent)}
h1{font-weight:500;font-size:28px;line-height:35px}label{display:block;color:var(--ink-2);margin-top:8px}
input{font:600 32px/60px ui-monospace,Consolas,monospace;width:100%;height:60px;margin-top:24px;color:inherit;border:0;
border-radius:0;text-transform:uppercase;letter-spacing:calc(var(--c) - 1ch);text-indent:calc(var(--c)/2 - 9px - .5ch);
background:repeating-linear-gradient(90deg,var(--control) 0 calc(var(--c) - 9px),transparent 0 var(--c)) 0 100%/
calc(6*var(--c) - 9px) 2px no-repeat}
input:focus-visible{outline:2px solid var(--ink);outline-offset:6px}
[role=alert]{min-height:48px;margin-top:14px;color:var(--ink-2)}
button{font-size:17px;height:52px;width:100%;margin-top:8px;border:0;border-radius:3px;background:var(--ink);
color:var(--paper);cursor:pointer}
h2{font-size:13px;line-height:20px;margin-top:28px}ul{padding-left:18px}li{color:var(--ink-2);padding:4px 0}
footer{margin-top:auto}
"""
PAGE = Template(
    f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Join the class · headscope</title><style>{STYLE}</style><main><header>headscope</header>
<svg viewBox="0 0 360 124" aria-hidden="true"><path stroke-width="6.8" opacity=".84"
d="M306 98C306-29 36-29 36 98"/><path opacity=".5" d="M306 98C306 8 124 8 124 98"/><path opacity=".45"
d="M306 98C306 46 216 46 216 98"/><text x="36" y="119">animal</text><text x="124" y="119">road</text>
<text x="216" y="119">because</text><text class="it" x="306" y="119">it</text></svg>
<h1>Join the class</h1><form action="{PATH}"><label for="code">Type the code on the wall.</label>
<input id="code" name="code" value="$typed" maxlength="7" autocomplete="off" autocapitalize="characters"
spellcheck="false" autofocus required><input type="hidden" name="join" value="1">
<p role="alert">$said</p><button>Join</button></form>
<footer><h2>What your teacher sees</h2><ul><li>How many of you chose each answer. Not who.</li>
<li>Your page on the wall only if you say yes, each time.</li>
<li>Nothing after you leave. Your own answers stay in this browser.</li></ul></footer></main></html>"""
).safe_substitute
POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HOW = "Four letters, two digits."
WRONG = "<b>There is no class with the code $code.</b> Look at the wall again: it changes when a class ends."
ENDED = "<b>This class has ended.</b> Ask your teacher for the code of the next one."
FULL = "<b>Too many browsers have joined from here.</b> Tell your teacher, and try again in a minute."
AGAIN = "If you were in a class here before: its server was started again, and answers from before no longer count."
SLOWLY = "Too many wrong codes at once. Wait a few seconds and try again."


class Join:
    """Answer requests for ``/class`` without the token; a right code gets the token's cookie."""

    def __init__(self, classroom: Classroom, token: AccessToken) -> None:
        self.classroom, self.token = classroom, token
        self._tries = RateLimiter(at_once=TRIES_AT_ONCE, per_second=TRIES_PER_SECOND)

    def respond(self, request: Request) -> Response | None:
        """The form, filled in if the address has a code, or a redirect for the right code; None for other paths."""
        if request.url.path != PATH or request.method != "GET":
            return None
        code = "".join(request.query_params.get("code", "")[:40].split()).upper()
        if not code or "join" not in request.query_params:
            return _form(HOW, code)
        address = request.client.host if request.client else ""
        if not self._tries.allow(address):
            return _form(SLOWLY, code, HTTPStatus.TOO_MANY_REQUESTS)
        if not self.classroom.matches(code):
            ended = self.classroom.matches(code, ended=True)
            said = ENDED if ended else Template(WRONG).substitute(code=html.escape(f"{code[:4]} {code[4:]}"))
            return _form(said, code, HTTPStatus.FORBIDDEN)
        self._tries.take_back(address)
        response = RedirectResponse(ARRIVED, HTTPStatus.SEE_OTHER)
        self.token.add_cookie(response)
        return response

    def turn_away(self, request: Request) -> Response | None:
        """Reject and count a browser that cannot get a cookie: it would be confused with others at its address."""
        if request.url.path != PATH or browser_id(request) is not None:
            return None
        self.classroom.turned_away += 1
        return _form(FULL, "", HTTPStatus.SERVICE_UNAVAILABLE)

    def again(self, request: Request) -> Response:
        """Return the form shown without a token; tell a browser that had joined before what is lost."""
        been = any(name.startswith(COOKIE) for name in request.cookies)
        return _form(AGAIN if been else HOW, "", HTTPStatus.UNAUTHORIZED)


def _form(said: str, code: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    page = PAGE(said=said, typed=html.escape(code))
    return HTMLResponse(page, status, headers={"Content-Security-Policy": POLICY})
