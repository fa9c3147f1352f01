"""A share link opened in a browser: the page says what it is and how to use it, and does nothing else."""

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


async def test_a_share_link_opened_in_a_browser_explains_its_use(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        shares = f"/api/sessions/{at.session}/shares"
        created = (await at.ann("POST", shares, {"role": "viewer", "seconds": 600})).json
        principal = Caller(at.app)
        page = await principal("GET", f"/acp?token={created['token']}", accept=BROWSER)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        # The link is a secret, and other users of a machine see its command lines.
        assert commands(page.body) == [
            "dragoman hosts add shared",
            "dragoman chat --host shared",
            "dragoman attach shared",
        ]
        assert created["token"].encode() not in page.body
        assert b"read along" in page.body
        assert b"<script" not in page.body
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")
        assert at.session.encode() not in page.body
        # Behind a TLS proxy, the address is the one that the user sees.
        proxied = {"accept": BROWSER, "x-forwarded-proto": "https"}
        page = await at.ann("GET", "/acp", **proxied)
        assert commands(page.body)[0] == "dragoman chat --host https://127.0.0.1:7437/acp"
        # Programs get the same as before, and a request authenticated by a header has no token in the page.
        assert (await principal("GET", f"/acp?token={created['token']}", accept="text/event-stream")).status == 400
        page = await Caller(at.app, created["token"])("GET", "/acp", accept=BROWSER)
        assert created["token"].encode() not in page.body
        assert (await at.ann("DELETE", f"{shares}/{created['id']}")).status == 200
        page = await principal("GET", f"/acp?token={created['token']}", accept=BROWSER)
        assert (page.status, commands(page.body)) == (401, [])
        assert b"<h1>This link is invalid or has expired.</h1>" in page.body
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
