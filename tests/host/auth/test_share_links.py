"""A share link that somebody opens like a web page: it says what it is and how it is used, and does nothing else."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from tests.host.http.test_app import Caller, doors

# What a browser asks for when a link is followed.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def commands(body: bytes) -> list[str]:
    """What the page says to type."""
    return [unescape(each) for each in re.findall("<pre>(.*?)</pre>", body.decode())]


async def test_a_link_that_is_opened_like_a_page_says_how_it_is_used(tmp_path: Path) -> None:

    async with doors(tmp_path) as at:
        shares = f"/api/sessions/{at.session}/shares"
        made = (await at.ann("POST", shares, {"role": "viewer", "seconds": 600})).json
        visitor = Caller(at.app)
        page = await visitor("GET", f"/acp?token={made['token']}", accept=BROWSER)
        link = f"'http://127.0.0.1:7437/acp?token={made['token']}'"
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert commands(page.body) == [f"dragoman chat --host {link}", f"dragoman attach {link}"]
        assert b"read along" in page.body
        assert b"<script" not in page.body
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")
        assert at.session.encode() not in page.body
        # Behind a proxy that speaks TLS, the address is the one that the visitor sees.
        proxied = {"accept": BROWSER, "x-forwarded-proto": "https"}
        page = await visitor("GET", f"/acp?token={made['token']}", **proxied)
        assert commands(page.body)[0] == f"dragoman chat --host {link.replace('http:', 'https:')}"
        # Programs get what they always got, and whoever is let in by a header finds no token in the page.
        assert (await visitor("GET", f"/acp?token={made['token']}", accept="text/event-stream")).status == 400
        page = await Caller(at.app, made["token"])("GET", "/acp", accept=BROWSER)
        assert made["token"].encode() not in page.body
        assert (await at.ann("DELETE", f"{shares}/{made['id']}")).status == 200
        page = await visitor("GET", f"/acp?token={made['token']}", accept=BROWSER)
        assert (page.status, commands(page.body)) == (401, [])
        assert b"<h1>This link is not good, or not any more.</h1>" in page.body
        assert made["token"].encode() not in page.body


async def test_whatever_stands_in_the_address_is_only_text(tmp_path: Path) -> None:
    nasty = ["<script>alert(1)</script>", "'; rm -rf ~ #", '"><img src=x>']

    async with doors(tmp_path) as at:
        for path in [*(f"/acp?x={each}" for each in nasty), *(f"/acp/{each}" for each in nasty)]:
            page = await at.ann("GET", path, accept=BROWSER)
            assert page.status in (200, 404)
            assert not re.search(r"<(script|img)", page.body.decode())
            for command in commands(page.body):
                assert re.search(r"--host '[^']*('\"'\"'[^']*)*'$|attach '[^']*('\"'\"'[^']*)*'$", command)
