"""The cookies of one server, for the life of a connection: a load balancer finds the right server by them."""

from __future__ import annotations

from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from http.client import HTTPResponse


class Cookies:
    """The cookies for one address, by the rules of the standard library."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._jar: CookieJar | None = None  # most servers set none

    def store(self, lines: list[str]) -> None:
        """Store what Set-Cookie headers say."""
        from email.message import Message
        from urllib.request import Request

        class Answer:
            def info(self) -> Message:
                message = Message()
                for line in lines:
                    message["Set-Cookie"] = line
                return message

        self._jar = self._jar if self._jar is not None else CookieJar()
        self._jar.extract_cookies(cast("HTTPResponse", Answer()), Request(self._url))

    def header(self) -> str:
        """Return the Cookie header of the next request; "" without cookies."""
        if self._jar is None:
            return ""
        from urllib.request import Request

        request = Request(self._url)
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie", "") or ""


def join_cookies(*headers: str) -> str:
    """Join Cookie headers, some of which may be empty: a request may have only one (RFC 6265 section 5.4)."""
    return "; ".join(header for header in headers if header)
