"""One HTTP client for index, archives and wheels: urllib, so that an installation without extras can use it.

Proxies come from the environment. Redirects stay on https. Every read has a time limit, and every answer a size limit.
"""

from __future__ import annotations

import hashlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NamedTuple

from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch.address import check_address, mirrored, shown_address

# A server that is silent for this long is down. Seconds.
SILENCE = 30.0
# After this long, a download must have this average speed; slower ones never end. Seconds, bytes a second.
SLOW_AFTER, SLOWEST = 60.0, 1024
# More hops than any mirror needs.
MAX_REDIRECTS = 5
# The largest archive of the official registry has 150 MB. Bytes.
MAX_ARCHIVE = 2 * 1024**3
CHUNK = 256 * 1024

Progress = Callable[[int, int | None], None]  # bytes so far, and all of them if the server says so


class Answer(NamedTuple):
    """A small answer: its body (None if it has not changed), and its ETag."""

    body: bytes | None
    etag: str


class Http:
    """Fetches addresses by the rules of this machine."""

    def __init__(
        self,
        *,
        ca: str = "",
        trusted_http: frozenset[str] = frozenset(),
        mirrors: Mapping[str, str] | None = None,
        offline: bool = False,
    ) -> None:
        """`ca`: a file with more certificate authorities; `trusted_http`: origins that the user named with http."""
        self._ca = ca
        self._trusted_http = trusted_http
        self._mirrors = mirrors or {}
        self.offline = offline
        self._opener: urllib.request.OpenerDirector | None = None

    def get(self, url: str, *, limit: int, etag: str = "", accept: str = "", timeout: float = SILENCE) -> Answer:
        """Return a small answer; raise RegistryFault."""
        headers = {"If-None-Match": etag} if etag else {}
        if accept:
            headers["Accept"] = accept
        deadline = time.monotonic() + timeout
        with self._open(url, headers, timeout) as response:
            if response.status == 304:
                return Answer(None, etag)
            body = bytearray()
            while chunk := response.read(CHUNK):
                body += chunk
                if len(body) > limit:
                    raise RegistryFault("network", f"{shown_address(url)} is larger than {limit >> 20} MiB")
                if time.monotonic() > deadline:
                    raise RegistryFault("network", f"{shown_address(url)} takes longer than {timeout:g} s")
            return Answer(bytes(body), response.headers.get("ETag") or "")

    def download(
        self, url: str, path: str, *, limit: int = MAX_ARCHIVE, progress: Progress | None = None
    ) -> tuple[str, int]:
        """Fetch an address into a file and return SHA-256 and size; a part that is already there is continued."""
        start = os.path.getsize(path) if os.path.exists(path) else 0
        if start > limit:
            os.unlink(path)
            start = 0
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._open(url, headers, SILENCE, accepts=(200, 206, 416)) as response:
            if response.status == 416:  # it was complete already, or it is another file now; the hash decides
                return _hash_file(path)
            is_continued = response.status == 206 and _range_start(response.headers) == start
            if response.status == 206 and not is_continued:
                raise RegistryFault("network", f"{shown_address(url)} answers with another part of the file")
            start = start if is_continued else 0
            total = _content_length(response.headers)
            if total is not None and start + total > limit:
                raise _too_large(url, limit)
            with open(path, "ab" if is_continued else "wb") as file:
                _copy(response, file, url, start, None if total is None else start + total, limit, progress)
            if total is not None and os.path.getsize(path) < start + total:
                raise RegistryFault(
                    "network", f"{shown_address(url)} ended early; run the command again, it will be continued"
                )
        return _hash_file(path)

    @contextmanager
    def _open(
        self, url: str, headers: Mapping[str, str], timeout: float, accepts: tuple[int, ...] = (200, 304)
    ) -> Iterator[Any]:
        url = mirrored(url, self._mirrors)
        check_address(url, self._trusted_http)
        if self.offline:
            raise RegistryFault("network", f"offline: {shown_address(url)} was not fetched; leave out --offline")
        request = urllib.request.Request(url, headers={"User-Agent": "dragoman", **headers})
        try:
            try:
                response = self._find_opener().open(request, timeout=timeout)
            except urllib.error.HTTPError as error:
                if error.code not in accepts:
                    raise
                response = error
            with response:
                yield response
        except urllib.error.HTTPError as error:
            raise RegistryFault(
                "network", f"{shown_address(error.url or url)} answers {error.code} {error.reason}", status=error.code
            ) from None
        except (urllib.error.URLError, TimeoutError, HTTPException, ConnectionError) as error:
            raise RegistryFault("network", _failure_text(url, error)) from None

    def _find_opener(self) -> urllib.request.OpenerDirector:
        if self._opener is None:
            import ssl

            context = ssl.create_default_context()
            if self._ca:
                try:
                    context.load_verify_locations(self._ca)
                except OSError as error:  # also ssl.SSLError
                    raise RegistryFault("network", f"--ca {self._ca}: {error.strerror or error}") from None
            self._opener = urllib.request.build_opener(
                urllib.request.HTTPSHandler(context=context), _CheckedRedirects(self._trusted_http)
            )
        return self._opener


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to addresses that may be fetched."""

    max_redirections = MAX_REDIRECTS

    def __init__(self, trusted_http: frozenset[str]) -> None:
        self._trusted_http = trusted_http

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        check_address(newurl, self._trusted_http)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _copy(
    response: Any, file: IO[bytes], url: str, done: int, total: int | None, limit: int, progress: Progress | None
) -> None:
    started, got = time.monotonic(), 0
    while chunk := response.read1(CHUNK):
        got += len(chunk)
        if done + got > limit:
            raise _too_large(url, limit)
        file.write(chunk)
        seconds = time.monotonic() - started
        if seconds > SLOW_AFTER and got < seconds * SLOWEST:
            raise RegistryFault(
                "network", f"{shown_address(url)} sends less than {SLOWEST} bytes a second; try again later"
            )
        if progress is not None:
            progress(done + got, total)


def _too_large(url: str, limit: int) -> RegistryFault:
    return RegistryFault("network", f"{shown_address(url)} is larger than {limit >> 20} MiB, the most that is fetched")


def _hash_file(path: str) -> tuple[str, int]:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), os.path.getsize(path)


def _content_length(headers: HTTPMessage) -> int | None:
    text = headers.get("Content-Length") or ""
    return int(text) if text.isdigit() else None


def _range_start(headers: HTTPMessage) -> int:
    text = (headers.get("Content-Range") or "").removeprefix("bytes ").partition("-")[0]
    return int(text) if text.isdigit() else -1


def _failure_text(url: str, error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.partition(":")[0])
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    is_used = proxy and not urllib.request.proxy_bypass(host)
    through = f" through the proxy {shown_address(proxy or '')}" if is_used else ""
    words = str(reason) or type(reason).__name__
    if "CERTIFICATE_VERIFY_FAILED" in words:
        words += "; name the certificate of your proxy with --ca FILE or SSL_CERT_FILE"
    return f"no answer from {host}{through}: {words}"
