"""A share link opened in a browser: the page takes the token from the address and signs in with it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from tests.host.http.test_app import Caller, hosted_app

# What a browser requests when a link is followed.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def commands(body: bytes) -> list[str]:
    """Return the commands that the page shows."""
    return [unescape(each) for each in re.findall("<pre>(.*?)</pre>", body.decode())]


async def test_a_share_link_opened_in_a_browser_is_the_page_that_signs_in(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        shares = f"/api/sessions/{at.session}/shares"
        created = (await at.ann("POST", shares, {"role": "viewer", "seconds": 600})).json
        principal = Caller(at.app)
        page = await principal("GET", f"/acp?token={created['token']}", accept=BROWSER)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b'<script type="module"' in page.body
        assert created["token"].encode() not in page.body
        assert at.session.encode() not in page.body
        assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-cache")
        # A link to a certain agent leads to the same page, whose files are beside it.
        named = await principal("GET", f"/acp/talker?token={created['token']}", accept=BROWSER)
        assert (named.status, named.headers["location"]) == (307, f"../acp?token={created['token']}")
        # The commands that a link is good for are on the address without a token, as before.
        proxied = {"accept": BROWSER, "x-forwarded-proto": "https"}
        page = await at.ann("GET", "/acp", **proxied)
        assert commands(page.body)[0] == "dragoman chat --host https://127.0.0.1:7437/acp"
        assert (await principal("GET", f"/acp?token={created['token']}", accept="text/event-stream")).status == 400
        page = await Caller(at.app, created["token"])("GET", "/acp", accept=BROWSER)
        assert created["token"].encode() not in page.body


async def test_text_in_the_address_is_escaped(tmp_path: Path) -> None:
    nasty = ["<script>alert(1)</script>", "'; rm -rf ~ #", '"><img src=x>']

    async with hosted_app(tmp_path) as at:
        for path in [*(f"/acp?x={each}" for each in nasty), *(f"/acp/{each}" for each in nasty)]:
            page = await at.ann("GET", path, accept=BROWSER)
            assert page.status in (200, 404)
            assert not re.search(r"<(script|img)", page.body.decode())
            for command in commands(page.body):
                assert re.search(r"--host '[^']*('\"'\"'[^']*)*'$|attach '[^']*('\"'\"'[^']*)*'$", command)
